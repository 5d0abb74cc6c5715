/* A stand-in for adjtimex(2) of the C library: it returns what ADJTIMEX says. */
#include <stdlib.h>
struct timex;
int adjtimex(struct timex *to) { const char *text = getenv("ADJTIMEX"); return text ? atoi(text) : 0; }
