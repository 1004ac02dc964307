/* Preloaded into cuspan's own processes: sends the heap bytes in use, in decimal, to each
 * connection to the abstract socket @heap-PID. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void* Serve(void* argument) {
  const int listener = (int)(ptrdiff_t)argument;
  for (;;) {
    const int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) continue;
    const struct mallinfo2 heap = mallinfo2();
    char text[32];
    const int bytes = snprintf(text, sizeof text, "%zu", heap.uordblks + heap.hblkhd);
    const ssize_t written = write(client, text, (size_t)bytes);
    (void)written;
    close(client);
  }
  return NULL;
}

__attribute__((constructor)) static void Start(void) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int length =
      snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "heap-%d", getpid());
  if (listener < 0 ||
      bind(listener, (struct sockaddr*)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0 ||
      listen(listener, 8) != 0)
    return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, Serve, (void*)(ptrdiff_t)listener) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
