/* A program in which two functions of the runtime share one body, as a linker
   that folds identical code makes it. */
__attribute__((used)) static int Body(void) { return 0; }
__attribute__((visibility("hidden"))) int __cudaRegisterFatBinary(void) { return 1; }
__attribute__((visibility("hidden"))) int cudaMalloc(void) { return Body(); }
__attribute__((visibility("hidden"), alias("cudaMalloc"))) int cudaFree(void);

int main(void) { return __cudaRegisterFatBinary() + cudaMalloc() + cudaFree(); }
