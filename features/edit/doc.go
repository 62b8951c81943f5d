// Package edit changes manifests byte for byte: it inserts and replaces feature edges, and says how a line should read. Nothing that is
// there is changed or reordered; the result is read again and must differ in just what was inserted, else there is an error and no result.
//
// It works on bytes and writes no file. go-toml reads them: it says at which byte a key stands, and BurntSushi/toml does not.
package edit
