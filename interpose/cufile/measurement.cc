// Statistics for programs.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "interpose/cufile/driver.h"
#include "interpose/cufile/statistics.h"
#include "interpose/load/load.h"

namespace cuspan::cufile {
namespace {

// First version (1000 · major + 10 · minor) known to end the first level with readv and
// writev. 1.15 ends before them. For those in between, less is written: never more than the
// caller's room.
constexpr int kFirstWithVectors = 1200;
constexpr std::size_t kBasicBytesBefore = offsetof(Statistics1, readv);

// Writes structures one after the other, as the caller's release lays them out.
class Layout {
 public:
  explicit Layout(void* place) : place_(static_cast<std::byte*>(place)) {}
  void Add(const Statistics1& basic) {
    Add(&basic, ProgramsCufileVersion() < kFirstWithVectors ? kBasicBytesBefore : sizeof basic);
  }
  template <typename T>
  void Add(const T& more) {
    Add(&more, sizeof more);
  }

 private:
  void Add(const void* from, std::size_t bytes) {
    std::memcpy(place_, from, bytes);
    place_ += bytes;
  }
  std::byte* place_;
};

std::unique_ptr<AllDeviceStatistics> AllDevices(const Session& session,
                                                const Statistics& statistics) {
  auto made = std::make_unique<AllDeviceStatistics>();
  AllDeviceStatistics& all = *made;
  const std::size_t count =
      std::min(static_cast<std::size_t>(session.devices().count()), kMaxDevicesOfStatistics);
  all.count = static_cast<std::uint32_t>(count);
  statistics.Copy(std::span(all.devices).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto& uuid = session.devices().description(static_cast<int>(i)).uuid;
    std::memcpy(all.devices[i].uuid, uuid.data(), sizeof all.devices[i].uuid);
  }
  return made;
}

// add(Layout&, const Session&, const Statistics&) writes what the level has.
template <typename Write>
CallResult AnswerLevel(int level, void* place, Write&& add) {
  if (place == nullptr) return Refuse(kInvalidValue, "the place of the statistics is null");
  return AnswerIfOpen([&](Session& session) -> CallResult {
    const Statistics& statistics = session.TableOf<Driver>().statistics();
    if (statistics.level() < level)
      return Refuse(kInvalidValue, "the level of statistics is lower");
    Layout layout(place);
    add(layout, session, statistics);
    return {};
  });
}

}  // namespace
}  // namespace cuspan::cufile

using namespace cuspan;          // NOLINT: the entry points below are the C API.
using namespace cuspan::cufile;  // NOLINT: the same.

CUSPAN_EXPORT CallResult cuFileSetStatsLevel(int level) {
  return Answer([&](Session& session) -> CallResult {
    if (level < 0 || level > Statistics::kMaxLevel)
      return Refuse(kInvalidValue, "levels of statistics are 0 to 3");
    session.TableOf<Driver>().statistics().SetLevel(level);
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileGetStatsLevel(int* level) {
  return Answer([&](Session& session) -> CallResult {
    if (level == nullptr) return Refuse(kInvalidValue, "the place of the level is null");
    *level = session.TableOf<Driver>().statistics().level();
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileStatsStart() {
  return AnswerIfOpen([](Session& session) -> CallResult {
    Statistics& statistics = session.TableOf<Driver>().statistics();
    if (statistics.level() == 0) return Refuse(kInternalError, "the level of statistics is 0");
    statistics.Start();
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileStatsStop() {
  return AnswerIfOpen([](Session& session) -> CallResult {
    session.TableOf<Driver>().statistics().Stop();
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileStatsReset() {
  return AnswerIfOpen([](Session& session) -> CallResult {
    session.TableOf<Driver>().statistics().Reset();
    return {};
  });
}

CUSPAN_EXPORT CallResult cuFileGetStatsL1(void* place) {
  return AnswerLevel(1, place, [](Layout& layout, const Session&, const Statistics& statistics) {
    layout.Add(statistics.basic());
  });
}

CUSPAN_EXPORT CallResult cuFileGetStatsL2(void* place) {
  return AnswerLevel(2, place, [](Layout& layout, const Session&, const Statistics& statistics) {
    layout.Add(statistics.basic());
    layout.Add(statistics.histograms());
  });
}

CUSPAN_EXPORT CallResult cuFileGetStatsL3(void* place) {
  return AnswerLevel(3, place,
                     [](Layout& layout, const Session& session, const Statistics& statistics) {
                       layout.Add(statistics.basic());
                       layout.Add(statistics.histograms());
                       layout.Add(*AllDevices(session, statistics));
                     });
}
