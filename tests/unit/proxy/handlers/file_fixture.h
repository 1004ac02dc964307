// Tests that read and write files.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "common/round_up.h"
#include "common/unique_fd.h"
#include "protocol/api/file_status.h"
#include "protocol/channel/socket.h"
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
inline constexpr std::size_t kMost = std::size_t{5} << 20;

class FileTest : public ServerTest {
 protected:
  // An unnamed file.
  static UniqueFd NewFile(const std::vector<std::byte>& contents, unsigned flags = 0) {
    UniqueFd fd(::memfd_create("file", MFD_CLOEXEC | flags));
    EXPECT_EQ(::pwrite(fd.get(), contents.data(), contents.size(), 0),
              static_cast<ssize_t>(contents.size()));
    return fd;
  }
  static std::vector<std::byte> ContentsOf(int fd) {
    std::vector<std::byte> contents(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)));
    EXPECT_EQ(::pread(fd, contents.data(), contents.size(), 0),
              static_cast<ssize_t>(contents.size()));
    return contents;
  }
  FileResult Share(std::uint64_t file, int fd, const Key128& secret = Loopback::kSecret) {
    Result<ControlSocket> socket = ControlSocket::Connect(loopback.exchange());
    if (!socket.ok() || !socket->Send(PeerHello{secret, kOpTableHash}).ok())
      return FileResult::kPending;
    const int fds[] = {fd};
    // The proxy may have closed the connection already, because of the secret.
    if (!socket->Send(FileShare{file}, std::span(fds, fd >= 0 ? 1 : 0)).ok())
      return FileResult::kPending;
    const Result<FileShared> shared = socket->Expect<FileShared>(std::chrono::seconds(30));
    return shared.ok() ? static_cast<FileResult>(shared->result) : FileResult::kPending;
  }
  // Posts a read or write; its outcome goes to a place of its own.
  template <typename Op>
  std::uint64_t PostFile(Op op) {
    op.status = loopback.NewHandle();
    FileStatus& outcome = outcomes_[op.status];
    outcome.result = FileResult::kPending;
    client.ReceiveTo(op.status, reinterpret_cast<std::byte*>(&outcome));
    client.Post(op);
    return op.status;
  }
  // The outcome when the stream has passed it.
  FileStatus Outcome(std::uint64_t status) {
    const StreamSynchronize::Reply reply = client.Call(StreamSynchronize{stream});
    EXPECT_TRUE(client.Await(
        [&](const Received& received) { return received.chunks.size() >= reply.chunks; }));
    return outcomes_.at(status);
  }
  void ExpectOutcome(std::uint64_t status, std::int64_t bytes,
                     FileResult result = FileResult::kSuccess, std::int32_t error = 0) {
    const FileStatus outcome = Outcome(status);
    EXPECT_EQ(outcome.bytes, bytes);
    EXPECT_EQ(static_cast<int>(outcome.result), static_cast<int>(result));
    EXPECT_EQ(outcome.error, error);
  }
  // Waits for the request of this transfer.
  FileWanted AwaitWanted(std::uint64_t transfer) {
    FileWanted wanted;
    EXPECT_TRUE(client.Await([&](const Received& received) {
      for (const FileWanted& one : received.files)
        if (one.transfer == transfer) {
          wanted = one;
          return true;
        }
      return false;
    }));
    return wanted;
  }

  const std::uint64_t block = loopback.Map(kMost);
  const std::uint64_t stream = loopback.NewStream();
  std::map<std::uint64_t, FileStatus> outcomes_;
};

}  // namespace cuspan::proxy
