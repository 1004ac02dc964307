// File of a share table: its mapping, its locks, and operations under these locks. For
// share_table.cc and share_slot.cc.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/sharing/share_layout.h"

namespace cuspan::sharing {

// Threads: one.
class ShareFile {
 public:
  // Path of a table, and the group of its users. Without a group it belongs to this user.
  struct Location {
    std::string path;
    std::optional<gid_t> group;
  };
  // Creates the file, or reinitializes an unused one. kRefused if the path is another kind of file,
  // or a table of another version in use.
  static Result<std::unique_ptr<ShareFile>> OpenOrCreate(const Location& place);
  // kNotFound if it does not exist, or is invalid and unused.
  static Result<std::unique_ptr<ShareFile>> Open(const Location& place);
  static Result<std::unique_ptr<ShareFile>> Open(UniqueFd fd);
  ~ShareFile();
  ShareFile(const ShareFile&) = delete;

  // The sharing parameters of a run.
  ShareTerms TermsOf(std::uint32_t run) const;
  // Path of the file, also if it was opened by descriptor; empty if deleted.
  std::string FindPath() const;
  // A new open file description.
  Result<UniqueFd> OpenAgain() const;
  const std::string& path() const { return path_; }
  Layout& layout() { return *layout_; }
  const Layout& layout() const { return *layout_; }

  // Exclusive right to change the table during its lifetime. kUnavailable if another process,
  // apparently stopped, does not release it.
  class Changing {
   public:
    explicit Changing(ShareFile* file) : file_(file) {}
    Changing(Changing&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
    Changing& operator=(Changing&&) = delete;
    ~Changing() {
      if (file_ != nullptr) file_->EndChange();
    }

   private:
    ShareFile* file_;
  };
  Result<Changing> Change();

  // --- Requires a Changing

  // Locks a slot; slots are bytes of the file. Returns false if another process has it.
  bool AcquireSlot(std::int64_t byte);
  void ReleaseSlot(std::int64_t byte);
  // Clears the slots of dead processes.
  void ForgetDead();
  // Reads the sessions' states, decides, and wakes sessions if necessary, except `self`.
  void DecideNow(const SessionSlot* self = nullptr);
  // Requests other runs' sessions to swap out memory, until the counted memory of `run` fits.
  // Withdraws earlier requests no longer needed. Returns true if any session has memory to swap
  // out.
  bool AskForRoom(std::uint32_t run);
  // Wakes the session to check its state again. Does not require a Changing.
  static void Wake(SessionSlot& session);
  // The session slots possibly in use.
  std::span<SessionSlot> sessions();
  // Wakes all sessions.
  void RingAll();

  // True if any slot is in use, or any run's slot.
  bool Used() const;
  bool HasRuns() const;
  // Nanoseconds of the host-wide clock.
  static std::uint64_t Now();

 private:
  ShareFile(std::string path, UniqueFd fd, Layout* layout, bool of_group)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        layout_(layout),
        copy_(of_group ? std::make_unique<scheduling::TimeSlices>() : nullptr) {}
  static_assert(kMaxSharingSessions <= 64);
  static Result<std::unique_ptr<ShareFile>> Map(std::string path, UniqueFd fd);
  static Result<UniqueFd> OpenFile(const Location& place);
  static Result<UniqueFd> CreateFile(const Location& place);
  static Status OtherVersion();
  bool Sound() const;
  void MakeAnew();
  bool Mine(std::int64_t byte) const;
  // True if another open file description has a lock on one of the bytes.
  static bool HasLocks(int fd, std::int64_t first, std::int64_t count);
  bool OthersHave(std::int64_t first, std::int64_t count) const {
    return HasLocks(fd_.get(), first, count);
  }
  void EndChange();

  const std::string path_;
  const UniqueFd fd_;
  Layout* const layout_;
  // If other users can write the table, decisions are made on a copy: checked values can not
  // change.
  const std::unique_ptr<scheduling::TimeSlices> copy_;
  std::vector<std::int64_t> own_;  // Slots.
  std::uint64_t to_wake_ = 0;      // Bitmap of sessions.
};

}  // namespace cuspan::sharing
