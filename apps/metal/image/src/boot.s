# Entry point: GRUB (Multiboot2) and `qemu -kernel` (PVH) both start here in 32-bit mode with paging off. This code
# enables 64-bit mode with page tables that identity-map 0 to 4 GiB and calls `image_main`; src/paging.rs replaces the
# tables.

.section .multiboot2, "a"
.balign 8
multiboot2_header:
    .long 0xE85250D6                    # magic
    .long 0                             # architecture: 32-bit protected mode of i386
    .long multiboot2_header_end - multiboot2_header
    .long -(0xE85250D6 + (multiboot2_header_end - multiboot2_header))
    .short 0, 0                         # end tag
    .long 8
multiboot2_header_end:

.section .note.pvh, "a", @note
.balign 4
    .long 4                             # bytes of the name
    .long 8                             # bytes of the description
    .long 18                            # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .boot, "ax"
.code32
.global multiboot2_start
multiboot2_start:
    cli
    cld
    mov edi, eax                        # 0x36D76289
    mov esi, ebx                        # the boot information
    jmp start
pvh_start:
    cli
    cld
    mov edi, 0x336EC578
    mov esi, ebx                        # hvm_start_info
start:
    mov esp, offset stack_top

    # Long mode: CPUID 0x80000001, EDX bit 29.
    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb no_long_mode
    mov eax, 0x80000001
    cpuid
    bt edx, 29
    jnc no_long_mode

    # One PML4, one PDPT, four page directories of 2 MiB pages: present, writable.
    mov eax, offset boot_pdpt
    or eax, 3
    mov dword ptr [boot_pml4], eax
    mov eax, offset boot_directories
    or eax, 3
    xor ecx, ecx
1:  mov dword ptr [boot_pdpt + ecx * 8], eax
    add eax, 0x1000
    inc ecx
    cmp ecx, 4
    jb 1b
    mov eax, 0x83
    xor ecx, ecx
2:  mov dword ptr [boot_directories + ecx * 8], eax
    add eax, 0x200000
    inc ecx
    cmp ecx, 2048
    jb 2b

    mov eax, offset boot_pml4
    mov cr3, eax
    mov eax, cr4
    or eax, 0x660                       # PAE, MCE, OSFXSR, OSXMMEXCPT
    mov cr4, eax
    mov ecx, 0xC0000080                 # EFER
    rdmsr
    or eax, 0x100                       # LME
    wrmsr
    mov eax, 0x80010033                 # PG, WP, NE, ET, MP, PE; caches on, no emulation
    mov cr0, eax
    lgdt [boot_gdt_pointer]
    push 0x08
    mov eax, offset long_start
    push eax
    retf

# Without 64-bit mode only a message on the screen is possible.
no_long_mode:
    mov edi, 0xB8000
    mov esi, offset no_long_mode_text
    mov ah, 0x4F
3:  lodsb
    test al, al
    jz 4f
    stosw
    jmp 3b
4:  hlt
    jmp 4b
no_long_mode_text:
    .asciz "Ringway needs a 64-bit processor (x86-64); this one is not."

.code64
long_start:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov al, 0xFF                        # both interrupt controllers: everything masked
    out 0x21, al
    out 0xA1, al
    fninit
    mov esp, offset stack_top
    xor ebp, ebp
    mov edi, edi                        # the upper halves are not defined after the switch
    mov esi, esi
    call image_main
5:  hlt
    jmp 5b

.balign 8
boot_gdt:
    .quad 0
    .quad 0x00AF9B000000FFFF            # 0x08: code, 64-bit, accessed, so that the processor does not write here
    .quad 0x00CF93000000FFFF            # 0x10: data, accessed
boot_gdt_pointer:
    .short . - boot_gdt - 1
    .quad boot_gdt

.section .bss.boot, "aw", @nobits
.balign 4096
boot_pml4:
    .skip 4096
boot_pdpt:
    .skip 4096
boot_directories:
    .skip 4 * 4096
