// Package tree puts a toolkit's directory together: it unpacks archives into one root, adds what no archive has (links, version.json, link
// stubs).
//
// It owns the marker gpubuild-toolkit.json and stubs/*.txt. The marker is renamed into place last: a directory without one is not a
// toolkit. It never fetches anything and does not know where toolkits are kept. Trees for Windows get no link stubs: the runtime's wheel
// has the import libraries.
package tree
