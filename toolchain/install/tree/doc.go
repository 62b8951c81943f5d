// Package tree puts a toolkit's directory together: it unpacks archives into one root, adds what no archive has (links, version.json, link
// stubs), lists every file with its hash, and later checks the directory against that list.
//
// It owns the marker gpubuild-toolkit.json, the list gpubuild-files-*.json that the marker names, and stubs/*.txt. The marker is
// renamed into place last: a directory without one is not a toolkit, and files that its list does not name do not count. It never
// fetches anything and does not know where toolkits are kept. Trees for Windows get no link stubs: the runtime's wheel has the import
// libraries.
package tree
