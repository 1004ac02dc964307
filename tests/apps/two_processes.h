// A program of two processes, exchanging progress messages and descriptors.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

// One end of the connection between them. If a message is not delivered, the program ends.
struct End {
  int socket;

  template <typename T>
  void Send(const T& value) const {
    if (write(socket, &value, sizeof value) != sizeof value) std::exit(3);
  }
  template <typename T>
  T Receive() const {
    T value;
    if (recv(socket, &value, sizeof value, MSG_WAITALL) != sizeof value) std::exit(3);
    return value;
  }
  void Signal() const { Send('x'); }
  void Await() const { Receive<char>(); }

  void SendFile(int file) const {
    char byte = 'f';
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    if (sendmsg(socket, &message, 0) != 1) std::exit(3);
  }
  // Returns -1 if the other end was closed without sending one.
  int ReceiveFile() const {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (recvmsg(socket, &message, 0) != 1) return -1;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    int file = -1;
    if (header != nullptr) std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
  }
};

// Starts the other process, before this one uses CUDA. Returns 0 in the other one, like fork.
inline pid_t StartOther(End* other) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) std::exit(3);
  const pid_t child = fork();
  if (child < 0) std::exit(3);
  other->socket = sockets[child == 0];
  close(sockets[child != 0]);
  return child;
}

// Waits for the other process's end. True if it was successful.
inline bool EndsWell(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
