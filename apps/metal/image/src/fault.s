# Exception entries: each vector pushes its number above the error code (zero if the processor pushes none), then all
# save the registers and call `handle_exception` with the address of the saved frame.

.section .text.fault, "ax"
.code64

.macro vector number, has_code=0
exception_\number:
    .if \has_code == 0
    push 0
    .endif
    push \number
    jmp exception_any
.endm

.irp number, 0, 1, 2, 3, 4, 5, 6, 7, 9, 15, 16, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 31
    vector \number
.endr
.irp number, 8, 10, 11, 12, 13, 14, 17, 21, 29, 30
    vector \number, 1
.endr

exception_any:
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    and rsp, -16
    call handle_exception
    ud2

.section .rodata.fault, "a"
.balign 8
.global exception_entries
exception_entries:
.irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    .quad exception_\number
.endr
