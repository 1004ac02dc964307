// PTX of kernels.cu, compiled by nvcc.
        .section .rodata
        .globl  cuspan_bench_ptx
        .globl  cuspan_bench_ptx_end
cuspan_bench_ptx:
        .incbin CUSPAN_BENCH_PTX
cuspan_bench_ptx_end:
        .byte   0
        .section .note.GNU-stack,"",@progbits
