package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Strict decodes one JSON value that gpubuild wrote: every key is there once, in its own case, and one that gpubuild writes.
func Strict[T any](data []byte, to *T) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(to); err != nil {
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("something follows behind it")
	}
	if err := keyTwice(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return err
	}
	again, err := json.Marshal(to)
	if err != nil {
		return err
	}
	var has, knows any
	if err := errors.Join(json.Unmarshal(data, &has), json.Unmarshal(again, &knows)); err != nil {
		return err
	}
	if key := unknownKey(has, knows); key != "" {
		return fmt.Errorf("gpubuild writes no field %q there", key)
	}
	return nil
}

// keyTwice is an error where an object of the next value has a key twice: encoding/json would take the last.
func keyTwice(in *json.Decoder) error {
	start, err := in.Token()
	if err != nil || start != json.Delim('{') && start != json.Delim('[') {
		return err
	}
	seen := map[json.Token]bool{}
	for in.More() {
		if start == json.Delim('{') {
			key, err := in.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("the field %q is there twice", key)
			}
			seen[key] = true
		}
		if err := keyTwice(in); err != nil {
			return err
		}
	}
	_, err = in.Token()
	return err
}

// unknownKey is a key of has that knows lacks: encoding/json takes a key in another case for the same.
func unknownKey(has, knows any) string {
	switch has := has.(type) {
	case map[string]any:
		known, _ := knows.(map[string]any)
		for key, value := range has {
			in, ok := known[key]
			if !ok {
				return key
			}
			if wrong := unknownKey(value, in); wrong != "" {
				return wrong
			}
		}
	case []any:
		known, _ := knows.([]any)
		for i := range min(len(has), len(known)) {
			if wrong := unknownKey(has[i], known[i]); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}
