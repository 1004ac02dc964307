#include "protocol/network/entrance.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace cuspan::net {
namespace {

// If more are waiting, the oldest is considered a stranger and dropped.
constexpr std::size_t kMaxWaiting = 1024;

}  // namespace

Result<Entrance::Guest> Entrance::Next(std::span<const int> watched, Deadline deadline) {
  while (true) {
    std::vector<pollfd> entries = {{.fd = interrupt_.fd(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const int fd : watched) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    for (const Guest& guest : waiting_)
      entries.push_back({.fd = guest.fd.get(), .events = POLLIN, .revents = 0});
    const int count = ::poll(entries.data(), entries.size(), PollTimeout(deadline));
    if (count == 0) return Status::Unavailable("the others did not connect in time");
    if (count < 0) continue;
    if (entries[0].revents != 0) return Status::Unavailable("{}", interrupt_.why());

    auto entry = entries.begin() + 2 + static_cast<std::ptrdiff_t>(watched.size());
    for (auto guest = waiting_.begin(); guest != waiting_.end(); ++entry) {
      if (entry->revents == 0 || Receive(*guest)) {
        ++guest;
        continue;
      }
      Guest complete = std::move(*guest);
      guest = waiting_.erase(guest);
      if (complete.said.size() == message_bytes_) return complete;
    }
    if (entries[1].revents != 0) {
      Result<UniqueFd> fd = listener_.Accept();
      const bool full = !fd.ok() || waiting_.size() == kMaxWaiting;
      if (full && !waiting_.empty())
        waiting_.pop_front();
      else if (!fd.ok())
        return fd.status();
      if (fd.ok() && fd->valid()) Admit(std::move(*fd));
    }
    const bool has_news = std::any_of(
        entries.begin() + 2, entries.begin() + 2 + static_cast<std::ptrdiff_t>(watched.size()),
        [](const pollfd& one) { return one.revents != 0; });
    if (has_news) return Guest();
  }
}

void Entrance::Admit(UniqueFd fd) {
  Guest guest{std::move(fd), {}, {}};
  if (question_) {
    guest.asked = question_();
    // The socket buffer of a new connection is empty. If the send fails, the guest will not answer,
    // either.
    static_cast<void>(::send(guest.fd.get(), guest.asked.data(), guest.asked.size(),
                             MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  waiting_.push_back(std::move(guest));
}

bool Entrance::Receive(Guest& guest) const {
  const std::size_t before = guest.said.size();
  guest.said.resize(message_bytes_);
  const ssize_t bytes =
      ::recv(guest.fd.get(), guest.said.data() + before, message_bytes_ - before, MSG_DONTWAIT);
  guest.said.resize(before + static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  return bytes > 0 && guest.said.size() < message_bytes_;
}

}  // namespace cuspan::net
