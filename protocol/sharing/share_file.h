// The file of a share table: its mapping, its locks, and what is done with it under them. For
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

// One thread.
class ShareFile {
 public:
  // Where a table is, and the group whose members may use it; without one it is this user's own.
  struct Location {
    std::string path;
    std::optional<gid_t> group;
  };
  // Makes the file, or a new table in it where nobody uses the one that lies there. kRefused when
  // something else lies there, or a table of another version that is used.
  static Result<std::unique_ptr<ShareFile>> OpenOrCreate(const Location& place);
  // kNotFound where there is none; what nobody uses and is no table counts as none.
  static Result<std::unique_ptr<ShareFile>> Open(const Location& place);
  static Result<std::unique_ptr<ShareFile>> Open(UniqueFd fd);
  ~ShareFile();
  ShareFile(const ShareFile&) = delete;

  // What the run of a place was promised.
  ShareTerms TermsOf(std::uint32_t run) const;
  // Where the file is, also of one that was opened by a descriptor; empty when it is gone.
  std::string FindPath() const;
  // Another open file description.
  Result<UniqueFd> OpenAgain() const;
  const std::string& path() const { return path_; }
  Layout& layout() { return *layout_; }
  const Layout& layout() const { return *layout_; }

  // The right to change the table; ends with it. kUnavailable when another has it for a time in
  // which it must have been stopped.
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

  // --- While it may be changed.

  // Places are bytes of the file. False when another has it.
  bool TakePlace(std::int64_t byte);
  void GivePlace(std::int64_t byte);
  // Clears the places of those that died.
  void ForgetDead();
  // Reads what sessions say, decides, and tells them, but for `self`.
  void DecideNow(const SessionSlot* self = nullptr);
  // Has sessions of other runs bring their memory to the host, as far as `run` lacks room for what
  // is counted as there; takes back what is not needed of earlier wishes. Whether any of them has
  // something to bring there.
  bool AskForRoom(std::uint32_t run);
  // The session looks again; that needs no right to change.
  static void Wake(SessionSlot& session);
  // Those places of sessions that may be taken.
  std::span<SessionSlot> sessions();
  // The same for all.
  void RingAll();

  // Whether anybody has a place, or a run has.
  bool Used() const;
  bool HasRuns() const;
  // Nanoseconds of the clock that all processes of the host share.
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
  // Whether another open file description has a lock on one of the bytes.
  static bool HasLocks(int fd, std::int64_t first, std::int64_t count);
  bool OthersHave(std::int64_t first, std::int64_t count) const {
    return HasLocks(fd_.get(), first, count);
  }
  void EndChange();

  const std::string path_;
  const UniqueFd fd_;
  Layout* const layout_;
  // Where other users can write the table, decisions are made on a copy: what was checked there
  // stays as it is.
  const std::unique_ptr<scheduling::TimeSlices> copy_;
  std::vector<std::int64_t> own_;  // Places.
  std::uint64_t to_wake_ = 0;      // Sessions, by bit.
};

}  // namespace cuspan::sharing
