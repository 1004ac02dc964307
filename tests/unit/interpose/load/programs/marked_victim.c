/* A function that begins with endbr64, long enough to keep it. */
int MarkedVictim(int a, int b, int c) { return (a * 12345 + b * 54321) ^ (c * 99999 + a * b); }
