// Tests lines on standard error, in a child writing to the test's descriptor.
#include "common/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace cuspan {
namespace {

using testing::HasSubstr;

// Returns the exit status of a child running `body` with this standard error.
int StatusOf(int standard_error, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(standard_error, STDERR_FILENO);
    ::alarm(20);
    body();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

std::string ReadAll(int fd) {
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(fd, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  return text;
}

void Fill(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const std::string block(4096, 'x');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  while (::write(fd, block.data(), 1) > 0) {
  }
  ::fcntl(fd, F_SETFL, flags);
}

TEST(Log, LinesThatAreAlikeAreCounted) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(StatusOf(ends[1],
                     [] {
                       for (int i = 0; i < 100; ++i) LogError("number {} of many", i);
                       LogError("another");
                     }),
            0);
  ::close(ends[1]);
  const std::string text = ReadAll(ends[0]);
  EXPECT_THAT(text, HasSubstr("cuspan: number 0 of many\ncuspan: number 1 of many\n"));
  EXPECT_THAT(text, HasSubstr("cuspan: another\n"));
  EXPECT_EQ(text.find("number 50"), std::string::npos);
  ::close(ends[0]);
}

// A pipe and a socket without a reader.
TEST(Log, ServicesDoNotWaitForAReader) {
  for (const bool socket : {false, true}) {
    int ends[2];
    ASSERT_EQ(socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                     : ::pipe2(ends, O_CLOEXEC),
              0);
    Fill(ends[1]);
    EXPECT_EQ(StatusOf(ends[1],
                       [] {
                         KeepLogFromWaiting();
                         LogError("nobody reads this");
                         LogPassedOn("cuspan: nor this\n");
                       }),
              0)
        << (socket ? "socket" : "pipe");
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST(Log, WhatWasLeftOutIsSaid) {
  int ends[2];
  int go[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  Fill(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    KeepLogFromWaiting();
    LogError("first");
    LogError("second");
    static_cast<void>(::write(go[1], "x", 1));
    // Repeats until the parent has read it and kills this process.
    for (int i = 0;; ++i, ::usleep(1000)) LogPassedOn(Format("third, for the {}th time\n", i));
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(go[0], &byte, 1), 1);
  std::string text;
  while (text.find("third") == std::string::npos) {
    char part[4096];
    const ssize_t got = ::read(ends[0], part, sizeof part);
    ASSERT_GT(got, 0);
    text.append(part, static_cast<std::size_t>(got));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(text.find("first"), std::string::npos);
  EXPECT_THAT(text, testing::ContainsRegex("cuspan: [0-9]+ lines were omitted here"));
  for (const int fd : {ends[0], go[0], go[1]}) ::close(fd);
}

}  // namespace
}  // namespace cuspan
