/* A function with endbr64 at its start, long enough to keep it when patched. */
int MarkedVictim(int a, int b, int c) { return (a * 12345 + b * 54321) ^ (c * 99999 + a * b); }
