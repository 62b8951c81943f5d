/* Prints the file that the probe would record to, in the directory of the first argument: Wine has no network share to try one with. */
#define WIN32_LEAN_AND_MEAN
#define _WIN32_WINNT 0x0602
#include <windows.h>
#include <stdio.h>

static HANDLE shown(const WCHAR *path) {
    printf("%ls\n", path);
    return INVALID_HANDLE_VALUE;
}
#define CreateFileW(path, ...) shown(path)
#include "../../probe/csrc/os_windows.h"

int main(int argc, char **argv) { return argc != 2 || begin_records(argv[1]) != -1; }
