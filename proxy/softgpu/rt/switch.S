// Switching between stacks on x86-64, and where a new stack starts.
//
// Only the registers that the System V ABI lets a callee keep are saved: the
// switch is a function call for whoever calls it. MXCSR and the x87 control
// word are the same for all kernels and stay as they are.

        .text

// void cuspan_rt_switch(void** saved, void* resumed)
// Saves the caller's registers on its stack and its stack pointer in *saved,
// then goes on where `resumed` was saved.
        .globl cuspan_rt_switch
        .hidden cuspan_rt_switch
        .type cuspan_rt_switch, @function
        .balign 16
cuspan_rt_switch:
        .cfi_startproc
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq %rsi, %rsp
        .cfi_endproc
        .size cuspan_rt_switch, . - cuspan_rt_switch

// Goes on where the stack pointer was saved. The fault handler resumes a worker
// here, having loaded its saved stack pointer.
        .globl cuspan_rt_resume
        .hidden cuspan_rt_resume
        .type cuspan_rt_resume, @function
cuspan_rt_resume:
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
        .size cuspan_rt_resume, . - cuspan_rt_resume

// First code on a new stack: calls r12 with rbx, which never returns. The end
// of the line for unwinders and debuggers.
        .globl cuspan_rt_start
        .hidden cuspan_rt_start
        .type cuspan_rt_start, @function
        .balign 16
cuspan_rt_start:
        .cfi_startproc
        .cfi_undefined rip
        xorl %ebp, %ebp
        movq %rbx, %rdi
        call *%r12
        ud2
        .cfi_endproc
        .size cuspan_rt_start, . - cuspan_rt_start

        .section .note.GNU-stack, "", @progbits
