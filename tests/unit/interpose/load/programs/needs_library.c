/* A program without CUDA that needs a library with it. */
int RunLibrary(void);

int main(void) { return RunLibrary(); }
