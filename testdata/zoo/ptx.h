/* The kernels of this zoo as PTX that a real driver compiles. */
#include <stdio.h>
#include <string.h>

/* What nvcc 13.4 makes of a matmul(a, b, c, n), one thread an element, and of a fill(p, v, n), in the PTX that drivers since 450 read. The stand-in driver
 * runs a C function of the entry's name instead. */
#define HEAD_PTX ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry %s"
#define MATMUL_PTX \
    "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn)\n{\n.reg .pred %%p<5>; .reg .f32 %%f<4>; .reg .b32 %%r<12>; .reg .b64 %%d<11>;\n" \
    "ld.param.u64 %%d1, [pa]; ld.param.u64 %%d2, [pb]; ld.param.u64 %%d3, [pc]; ld.param.u32 %%r1, [pn];\n" \
    "mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%ctaid.x; mov.u32 %%r4, %%tid.x; mad.lo.s32 %%r5, %%r3, %%r2, %%r4;\n" \
    "mov.u32 %%r2, %%ntid.y; mov.u32 %%r3, %%ctaid.y; mov.u32 %%r4, %%tid.y; mad.lo.s32 %%r6, %%r3, %%r2, %%r4;\n" \
    "setp.ge.u32 %%p1, %%r5, %%r1; setp.ge.u32 %%p2, %%r6, %%r1; or.pred %%p3, %%p1, %%p2; @%%p3 bra DONE;\n" \
    "cvta.to.global.u64 %%d4, %%d1; cvta.to.global.u64 %%d5, %%d2; cvta.to.global.u64 %%d6, %%d3;\n" \
    "mul.lo.s32 %%r7, %%r6, %%r1; mov.u32 %%r8, %%r7; mov.u32 %%r9, %%r5; mov.u32 %%r10, 0; mov.f32 %%f1, 0f00000000;\n" \
    "NEXT:\nmul.wide.u32 %%d7, %%r8, 4; add.s64 %%d8, %%d4, %%d7; ld.global.f32 %%f2, [%%d8];\n" \
    "mul.wide.u32 %%d9, %%r9, 4; add.s64 %%d10, %%d5, %%d9; ld.global.f32 %%f3, [%%d10];\n" \
    "fma.rn.f32 %%f1, %%f2, %%f3, %%f1; add.s32 %%r8, %%r8, 1; add.s32 %%r9, %%r9, %%r1; add.s32 %%r10, %%r10, 1;\n" \
    "setp.lt.u32 %%p4, %%r10, %%r1; @%%p4 bra NEXT;\n" \
    "add.s32 %%r11, %%r7, %%r5; mul.wide.u32 %%d7, %%r11, 4; add.s64 %%d8, %%d6, %%d7; st.global.f32 [%%d8], %%f1;\nDONE:\nret;\n}\n"
#define FILL_PTX \
    "(.param .u64 pp, .param .f32 pv, .param .u32 pn)\n{\n.reg .pred %%p<2>; .reg .f32 %%f<2>; .reg .b32 %%r<6>; .reg .b64 %%d<5>;\n" \
    "ld.param.u64 %%d1, [pp]; ld.param.f32 %%f1, [pv]; ld.param.u32 %%r1, [pn];\n" \
    "mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%ctaid.x; mov.u32 %%r4, %%tid.x; mad.lo.s32 %%r5, %%r3, %%r2, %%r4;\n" \
    "setp.ge.u32 %%p1, %%r5, %%r1; @%%p1 bra DONE;\n" \
    "cvta.to.global.u64 %%d2, %%d1; mul.wide.u32 %%d3, %%r5, 4; add.s64 %%d4, %%d2, %%d3; st.global.f32 [%%d4], %%f1;\nDONE:\nret;\n}\n"

__attribute__((unused)) static const char *ptx(const char *name) {
    static _Thread_local char text[4096];
    if (strstr(name, "matmul") || strstr(name, "mul_mat_vec") || strstr(name, "gemv") || strstr(name, "cutlass")) snprintf(text, sizeof text, HEAD_PTX MATMUL_PTX, name);
    else snprintf(text, sizeof text, HEAD_PTX FILL_PTX, name);
    return text;
}
