#include "protocol/channel/far_wake.h"

#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/high_fd.h"
#include "common/unique_fd.h"

namespace cuspan {

FarWake FarWake::Of(std::span<const std::byte> address, std::span<const std::byte> datagram) {
  FarWake wake;
  if (address.size() > sizeof wake.address || datagram.size() > sizeof wake.datagram) return wake;
  std::copy(address.begin(), address.end(), wake.address);
  std::copy(datagram.begin(), datagram.end(), wake.datagram);
  wake.address_bytes = static_cast<std::uint32_t>(address.size());
  wake.datagram_bytes = static_cast<std::uint32_t>(datagram.size());
  return wake;
}

FarWaker::~FarWaker() {
  const MutexLock lock(mutex_);
  if (StillOurs()) ::close(socket_);
}

bool FarWaker::StillOurs() const {
  struct stat found {};
  return socket_ >= 0 && ::fstat(socket_, &found) == 0 && S_ISSOCK(found.st_mode) &&
         found.st_ino == inode_;
}

void FarWaker::Open(const FarWake& wake) {
  socket_ = -1;
  sockaddr_storage to{};
  const std::size_t bytes = std::min<std::size_t>(wake.address_bytes, sizeof to);
  std::memcpy(&to, wake.address, bytes);
  if (bytes == 0 || (to.ss_family != AF_INET && to.ss_family != AF_INET6)) return;
  UniqueFd made(::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return;
  const int no = 0;
  if (to.ss_family == AF_INET6) ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  made = MoveHigh(std::move(made));
  struct stat own {};
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&to),
                static_cast<socklen_t>(bytes)) != 0 ||
      ::fstat(made.get(), &own) != 0)
    return;
  inode_ = own.st_ino;
  socket_ = made.Release();
}

void FarWaker::Send(const FarWake& wake) {
  const MutexLock lock(mutex_);
  if (!StillOurs()) Open(wake);
  if (socket_ < 0) return;
  static_cast<void>(::send(socket_, wake.datagram,
                           std::min<std::size_t>(wake.datagram_bytes, sizeof wake.datagram),
                           MSG_NOSIGNAL));
}

}  // namespace cuspan
