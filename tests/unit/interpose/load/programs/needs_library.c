/* A program without CUDA code, linked to a library with CUDA code. */
int RunLibrary(void);

int main(void) { return RunLibrary(); }
