/* Stands in for NVIDIA's libnvidia-ml.so.1 on the program's node. */
int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 8;
  return 0;
}

int nvmlInternalSomething(int value) { return value + value; }

int OfAnotherKind(int* value) {
  *value *= 3;
  return *value + 7;
}
