// Switching between stacks on x86-64, and the start of a new stack.
//
// Only the callee-saved registers of the System V ABI are saved: for its caller, the switch is a
// function call. MXCSR and the x87 control word are the same for all kernels and stay unchanged.

        .text

//   void cuspan_rt_switch(void** saved, void* resumed)
// Saves the caller's registers on its stack and its stack pointer in *saved, then continues at the
// position saved in `resumed`. The processor expects a return to lead to the instruction after the
// last call. If it leads elsewhere, a jump is predicted better.
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
        movq 48(%rsp), %rcx
        movq %rsi, %rsp
        cmpq 48(%rsp), %rcx
        je cuspan_rt_resume
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        popq %rcx
        jmp *%rcx
        .cfi_endproc
        .size cuspan_rt_switch, . - cuspan_rt_switch

// Continues at the position saved in the stack pointer. The fault handler resumes a worker here,
// after loading its saved stack pointer.
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

//   void cuspan_rt_begin(void** saved, void* top, void* (*entry)(void*), void* argument)
// Saves state like cuspan_rt_switch, and calls entry(argument) on the stack beginning at `top`.
// Then continues at the saved position returned by entry. Calls and returns are paired as in any
// program, as the processor's return prediction expects.
        .globl cuspan_rt_begin
        .hidden cuspan_rt_begin
        .type cuspan_rt_begin, @function
        .balign 16
cuspan_rt_begin:
        .cfi_startproc
        .cfi_undefined rip
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq %rsi, %rsp
        xorl %ebp, %ebp
        movq %rcx, %rdi
        call *%rdx
        movq %rax, %rsp
        jmp cuspan_rt_resume
        .cfi_endproc
        .size cuspan_rt_begin, . - cuspan_rt_begin

// First code on a new stack: calls r12 with rbx, then continues at the saved position it returns.
// Unwinders and debuggers stop here.
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
        movq %rax, %rsp
        jmp cuspan_rt_resume
        .cfi_endproc
        .size cuspan_rt_start, . - cuspan_rt_start

        .section .note.GNU-stack, "", @progbits
