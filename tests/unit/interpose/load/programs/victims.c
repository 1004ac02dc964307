/* Functions overwritten by the patching test. */
int VictimOne(void) { return 1; }
int VictimTwo(void) { return 2; }
int VictimThree(void) { return 3; }

int victim_data = 4;

/* Two functions without padding between them. */
__asm__(
    ".text\n.p2align 4\n"
    ".globl TightOne\n.type TightOne, @function\n"
    "TightOne: movl $5, %eax\nret\n.size TightOne, .-TightOne\n"
    ".globl TightTwo\n.type TightTwo, @function\n"
    "TightTwo: movl $6, %eax\nret\n.size TightTwo, .-TightTwo\n.p2align 4\n");
