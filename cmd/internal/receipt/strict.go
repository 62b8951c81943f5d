package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Strict decodes one JSON value that gpubuild wrote. Only white space may be another: a key that is there twice, in another case or
// unknown, of which encoding/json takes what it likes, would not be written back as it is.
func Strict[T any](data []byte, to *T) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(to); err != nil {
		return err
	}
	var is bytes.Buffer
	again, err := json.Marshal(to)
	if err = errors.Join(err, json.Compact(&is, data)); err != nil {
		return err
	}
	if !bytes.Equal(is.Bytes(), again) {
		return errors.New("it is not as gpubuild writes it: another tool wrote it again, or a key is unknown, there twice or in another place")
	}
	return nil
}
