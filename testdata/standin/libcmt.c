/* Stand-in libcmt.lib: what cl's objects ask of their C library beyond what msvcrt.dll has. mingw-w64 compiles it, once for each ENTRY:
 *   x86_64-w64-mingw32-gcc -O1 -c -DENTRY=1 libcmt.c -o exe.o; … -DENTRY=2 … dll.o; … -DENTRY=0 … rest.o; ar rcs libcmt.lib exe.o dll.o rest.o */
#include <stddef.h>

#if ENTRY == 1
int main(void);
__attribute__((noreturn)) void exit(int);
void mainCRTStartup(void) { exit(main()); }
#elif ENTRY == 2
int DllMain(void *, unsigned long, void *);
int _DllMainCRTStartup(void *self, unsigned long why, void *reserved) { return DllMain(self, why, reserved); }
#else
int _fltused;
/* /GS: the cookie is not checked here */
size_t __security_cookie = 0x2b992ddfa232;
void __security_check_cookie(size_t c) { (void)c; }
int __GSHandlerCheck(void) { return 1; }
/* variables of a thread: where they are is told by the directory that the linker looks for by this name (PE format, "The .tls Section") */
unsigned _tls_index;
__attribute__((section(".tls"))) char _tls_start;
__attribute__((section(".tls$ZZZ"))) char _tls_end;
const struct { void *start, *end, *index, *callbacks; unsigned zeros, flags; } _tls_used = { &_tls_start, &_tls_end, &_tls_index, NULL, 0, 0 };
/* touches the stack page by page; rax: how much of it */
__asm__(".globl __chkstk\n__chkstk:\n push %rcx\n push %rax\n cmp $0x1000, %rax\n lea 24(%rsp), %rcx\n jb 2f\n"
        "1: sub $0x1000, %rcx\n test %rcx, (%rcx)\n sub $0x1000, %rax\n cmp $0x1000, %rax\n ja 1b\n"
        "2: sub %rax, %rcx\n test %rcx, (%rcx)\n pop %rax\n pop %rcx\n ret\n");
#endif
