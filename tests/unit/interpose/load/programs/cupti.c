/* Stands in for a working libcupti.so.13. A program run by cuspan must reach none of it, except
 * the function not belonging to CUPTI. */
int cuptiGetVersion(unsigned* version) {
  *version = 130042;
  return 0;
}

int cuptiSubscribe(void** subscriber, void* callback, void* data) {
  *subscriber = callback == 0 ? data : callback;
  return 0;
}

int cuptiActivityEnable(int kind) { return kind - kind; }

int cuptiGetResultString(int result, const char** text) {
  *text = result == 0 ? "the library's own" : "the library's own error";
  return 0;
}

int InitializeInjection(int* value) {
  *value *= 3;
  return *value + 7;
}
