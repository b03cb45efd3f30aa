# memcpy, memmove, memset, memcmp, bcmp, strlen: the compiler calls them, and this target expects them from libc. They
# process 16 bytes at a time, the last ones overlapping: `rep movsb` would be slow on an emulated processor, and the
# compiler would turn loops in Rust into calls of themselves.

.section .text.memory, "ax"
.code64

.global memcpy
.global memmove
.balign 16
memmove:
    mov rax, rdi
    sub rax, rsi
    cmp rax, rdx
    jb copy_backward                    # the target begins inside the source
memcpy:
    mov rax, rdi
    cmp rdx, 16
    jb copy_small
    # The last 16 bytes are read first and written last: a target below the source may overlap it.
    movups xmm1, [rsi + rdx - 16]
    lea r8, [rdi + rdx - 16]
    cmp rdx, 64
    jb 2f
.balign 16
1:  movups xmm2, [rsi]
    movups xmm3, [rsi + 16]
    movups xmm4, [rsi + 32]
    movups xmm5, [rsi + 48]
    movups [rdi], xmm2
    movups [rdi + 16], xmm3
    movups [rdi + 32], xmm4
    movups [rdi + 48], xmm5
    add rsi, 64
    add rdi, 64
    sub rdx, 64
    cmp rdx, 64
    jae 1b
2:  cmp rdx, 16
    jbe 3f
    movups xmm2, [rsi]
    movups [rdi], xmm2
    add rsi, 16
    add rdi, 16
    sub rdx, 16
    jmp 2b
3:  movups [r8], xmm1
    ret

copy_backward:
    mov rax, rdi
    cmp rdx, 16
    jb copy_small
    movups xmm1, [rsi]
4:  cmp rdx, 16
    jbe 5f
    movups xmm2, [rsi + rdx - 16]
    movups [rdi + rdx - 16], xmm2
    sub rdx, 16
    jmp 4b
5:  movups [rax], xmm1
    ret

# Fewer than 16 bytes: all is read before any is written.
copy_small:
    cmp edx, 8
    jae 8f
    cmp edx, 4
    jae 7f
    cmp edx, 2
    jae 6f
    test edx, edx
    jz 5f
    mov cl, [rsi]
    mov [rdi], cl
5:  ret
6:  movzx ecx, word ptr [rsi]
    movzx r8d, word ptr [rsi + rdx - 2]
    mov [rdi], cx
    mov [rdi + rdx - 2], r8w
    ret
7:  mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
8:  mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret

.global memset
.balign 16
memset:
    mov r8, rdi
    movzx eax, sil
    mov rcx, 0x0101010101010101
    imul rax, rcx
    cmp rdx, 16
    jb 3f
    movq xmm0, rax
    punpcklqdq xmm0, xmm0
    lea rcx, [rdi + rdx - 16]
    cmp rdx, 64
    jb 1f
    lea r9, [rcx - 48]
7:  movups [rdi], xmm0
    movups [rdi + 16], xmm0
    movups [rdi + 32], xmm0
    movups [rdi + 48], xmm0
    add rdi, 64
    cmp rdi, r9
    jbe 7b
1:  cmp rdi, rcx
    jae 2f
    movups [rdi], xmm0
    add rdi, 16
    jmp 1b
2:  movups [rcx], xmm0
    mov rax, r8
    ret
3:  cmp edx, 8
    jb 4f
    mov [rdi], rax
    mov [rdi + rdx - 8], rax
    mov rax, r8
    ret
4:  test edx, edx
    jz 6f
5:  mov [rdi], al
    inc rdi
    dec edx
    jnz 5b
6:  mov rax, r8
    ret

.global memcmp
.global bcmp
.balign 16
memcmp:
bcmp:
    xor ecx, ecx
    cmp rdx, 16
    jb 3f
1:  movups xmm0, [rdi + rcx]
    movups xmm1, [rsi + rcx]
    pcmpeqb xmm0, xmm1
    pmovmskb eax, xmm0
    xor eax, 0xFFFF
    jnz 2f
    add rcx, 16
    lea r8, [rcx + 16]
    cmp r8, rdx
    jbe 1b
    cmp rcx, rdx
    je 5f
    # The last 16 bytes, some of which are compared again.
    lea rcx, [rdx - 16]
    jmp 1b
2:  bsf eax, eax
    add rcx, rax
4:  movzx eax, byte ptr [rdi + rcx]
    movzx edx, byte ptr [rsi + rcx]
    sub eax, edx
    ret
5:  xor eax, eax
    ret
# Fewer than 16 bytes: the first eight or four and the last eight or four.
3:  cmp edx, 8
    jb 6f
    mov rax, [rdi]
    xor rax, [rsi]
    jnz 7f
    lea rcx, [rdx - 8]
    mov rax, [rdi + rcx]
    xor rax, [rsi + rcx]
    jz 5b
7:  bsf rax, rax
    shr eax, 3
    add rcx, rax
    jmp 4b
6:  cmp edx, 4
    jb 8f
    mov eax, [rdi]
    xor eax, [rsi]
    jnz 7b
    lea rcx, [rdx - 4]
    mov eax, [rdi + rcx]
    xor eax, [rsi + rcx]
    jnz 7b
    jmp 5b
8:  cmp ecx, edx
    jae 5b
    mov al, [rdi + rcx]
    cmp al, [rsi + rcx]
    jne 4b
    inc ecx
    jmp 8b

.global strlen
.balign 16
strlen:
    xor eax, eax
1:  cmp byte ptr [rdi + rax], 0
    je 2f
    inc rax
    jmp 1b
2:  ret
