/* A program with one body shared by two functions of the runtime, as made by a linker folding
 * identical code. */
__attribute__((used)) static int Body(void) { return 0; }
__attribute__((visibility("hidden"))) int __cudaRegisterFatBinary(void) { return 1; }
__attribute__((visibility("hidden"))) int cudaMalloc(void) { return Body(); }
__attribute__((visibility("hidden"), alias("cudaMalloc"))) int cudaFree(void);

int main(void) { return __cudaRegisterFatBinary() + cudaMalloc() + cudaFree(); }
