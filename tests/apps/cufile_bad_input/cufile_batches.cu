// Batches of reads and writes.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "group.h"

namespace cufile {
namespace {

constexpr unsigned kEntries = 8;

std::string StatusName(int status) {
  switch (status) {
    case CUFILE_WAITING:
      return "WAITING";
    case CUFILE_PENDING:
      return "PENDING";
    case CUFILE_INVALID:
      return "INVALID";
    case CUFILE_CANCELED:
      return "CANCELED";
    case CUFILE_COMPLETE:
      return "COMPLETE";
    case CUFILE_TIMEOUT:
      return "TIMEOUT";
    case CUFILE_FAILED:
      return "FAILED";
    default:
      return std::to_string(status);
  }
}

timespec Seconds(long seconds, long nanoseconds = 0) {
  timespec time{};
  time.tv_sec = seconds;
  time.tv_nsec = nanoseconds;
  return time;
}

CUfileIOParams_t Entry(CUfileHandle_t file, void* memory, std::size_t size = 4096,
                       off_t file_offset = 0, off_t memory_offset = 0, int opcode = CUFILE_READ) {
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.u.batch.devPtr_base = memory;
  entry.u.batch.file_offset = file_offset;
  entry.u.batch.devPtr_offset = memory_offset;
  entry.u.batch.size = size;
  entry.fh = file;
  entry.opcode = static_cast<CUfileOpcode_t>(opcode);
  return entry;
}

// The same entry several times. Their cookies are their numbers from 1.
std::vector<CUfileIOParams_t> Entries(unsigned count, const CUfileIOParams_t& entry) {
  std::vector<CUfileIOParams_t> entries(count, entry);
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i].cookie = reinterpret_cast<void*>(i + 1);
  return entries;
}

// Waits for the events of `count` entries for up to two seconds. Returns them in the order of the
// entries, whose cookies are their numbers from 1.
std::string Events(CUfileBatchHandle_t batch, unsigned count) {
  std::map<long, std::string> found;
  std::string error;
  for (int i = 0; i < 20 && found.size() < count; ++i) {
    CUfileIOEvents_t events[512]{};
    unsigned number = count;
    timespec timeout = Seconds(0, 100'000'000);
    const std::string result = cuFileBatchIOGetStatus(batch, 1, &number, events, &timeout);
    if (!Succeeded(result)) {
      error = " " + result;
      break;
    }
    for (unsigned k = 0; k < number && k < 512; ++k) {
      found[reinterpret_cast<long>(events[k].cookie)] =
          StatusName(events[k].status) + " " + Late(static_cast<long>(events[k].ret));
    }
  }
  std::string text = "events";
  for (const auto& [entry, state] : found) text += " " + std::to_string(entry) + ": " + state + ";";
  if (found.empty()) text += " none;";
  return text + error;
}

// Submits the entries as one batch, and returns their final states.
std::string Batch(std::vector<CUfileIOParams_t> entries, unsigned flags = 0,
                  unsigned set_up = kEntries) {
  CUfileBatchHandle_t batch = nullptr;
  std::string result = cuFileBatchIOSetUp(&batch, set_up);
  if (!Succeeded(result)) return "set up " + result;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].cookie = reinterpret_cast<void*>(i + 1);
  }
  const unsigned count = static_cast<unsigned>(entries.size());
  result = cuFileBatchIOSubmit(batch, count, entries.data(), flags);
  if (Succeeded(result)) result += ", " + Events(batch, count);
  cuFileBatchIODestroy(batch);
  return result;
}

// Result of cuFileBatchIOSetUp, whose batch is destroyed.
std::string SetUp(unsigned entries) {
  CUfileBatchHandle_t batch = nullptr;
  const std::string result = cuFileBatchIOSetUp(&batch, entries);
  if (batch != nullptr) cuFileBatchIODestroy(batch);
  return result;
}

}  // namespace

void BatchSetUp() {
  Open();
  FATAL(cuFileBatchIOSetUp(nullptr, 1));
  FATAL(cuFileBatchIOSetUp(nullptr, 0));
  BAD(SetUp(0));
  BAD(SetUp(1));
  BAD(SetUp(127));
  BAD(SetUp(128));
  BAD(SetUp(129));
  BAD(SetUp(256));
  BAD(SetUp(257));
  BAD(SetUp(1024));
  BAD(SetUp(1025));
  BAD(SetUp(1 << 20));
  BAD(SetUp(UINT32_MAX));
  BAD_AS("16 batches of 128", [] {
    for (int i = 0; i < 16; ++i) {
      CUfileBatchHandle_t batch = nullptr;
      const std::string result = cuFileBatchIOSetUp(&batch, 128);
      if (!Succeeded(result)) return result + " at " + std::to_string(i);
    }
    return std::string("all");
  }());
}

void BatchSubmit() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  CUfileBatchHandle_t batch = nullptr;
  MUST(cuFileBatchIOSetUp(&batch, 4));
  std::vector<CUfileIOParams_t> entries = Entries(300, Entry(file, memory));
  BAD(cuFileBatchIOSubmit(nullptr, 1, entries.data(), 0));
  BAD(cuFileBatchIOSubmit(Rubbish<CUfileBatchHandle_t>(1), 1, entries.data(), 0));
  BAD(cuFileBatchIOSubmit(batch, 1, nullptr, 0));
  BAD(cuFileBatchIOSubmit(batch, 0, entries.data(), 0));
  BAD(cuFileBatchIOSubmit(batch, 0, nullptr, 0));
  BAD(cuFileBatchIOSubmit(batch, 5, entries.data(), 0));
  BAD(cuFileBatchIOSubmit(batch, 300, entries.data(), 0));
  BAD(cuFileBatchIOSubmit(batch, UINT32_MAX, entries.data(), 0));
  BAD_AS("4 entries after these", cuFileBatchIOSubmit(batch, 4, entries.data(), 0));
  BAD_AS("4 entries before their events", cuFileBatchIOSubmit(batch, 4, entries.data(), 0));
  BAD_AS("events of 4", Events(batch, 4));
  BAD_AS("4 entries again", cuFileBatchIOSubmit(batch, 4, entries.data(), 0));
  BAD_AS("events again", Events(batch, 4));
  BAD_AS("submit 2 of 4", cuFileBatchIOSubmit(batch, 2, entries.data(), 0));
  BAD_AS("submit 3 more", cuFileBatchIOSubmit(batch, 3, entries.data(), 0));
  BAD(cuFileBatchIODestroy(batch));
  BAD_AS("submit to the destroyed batch", cuFileBatchIOSubmit(batch, 1, entries.data(), 0));
}

void BatchEntries() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const CUfileHandle_t read_only = Register(open(Path("data").c_str(), O_RDONLY));
  const CUfileHandle_t write_only = Register(open(Path("data").c_str(), O_WRONLY));
  const CUfileHandle_t direct = Register(open(Path("data").c_str(), O_RDWR | O_DIRECT));
  static char host[4096];
  static char zeros[4096];
  void* managed = nullptr;
  void* pinned = nullptr;
  CHECK(cudaMallocManaged(&managed, 4096));
  CHECK(cudaMallocHost(&pinned, 4096));
  const CUfileIOParams_t good = Entry(file, memory);
  const auto mode = [&](int value) {
    CUfileIOParams_t entry = good;
    entry.mode = static_cast<CUfileBatchMode_t>(value);
    return entry;
  };
  const auto opcode = [&](int value) { return Entry(file, memory, 4096, 0, 0, value); };
  BAD(Batch({good}));
  BAD(Batch({good, good}));
  BAD(Batch({mode(0)}));
  BAD(Batch({mode(2)}));
  BAD(Batch({mode(-1)}));
  FATAL(Batch({good, mode(0)}));
  BAD(Batch({mode(0), good}));
  BAD(Batch({opcode(1)}));
  BAD(Batch({opcode(2)}));
  BAD(Batch({opcode(-1)}));
  BAD(Batch({good, opcode(99)}));
  BAD(Batch({Entry(nullptr, memory)}));
  BAD(Batch({good, Entry(nullptr, memory)}));
  BAD(Batch({Entry(nullptr, memory), good}));
  BAD(Batch({Entry(zeros, memory)}));
  BAD(Batch({Entry(Rubbish<CUfileHandle_t>(1), memory)}));
  FATAL(Batch({Entry(file, nullptr)}));
  FATAL(Batch({good, Entry(file, nullptr)}));
  FATAL(Batch({Entry(file, nullptr), good}));
  BAD(Batch({Entry(file, nullptr, 0)}));
  BAD(Batch({Entry(file, memory, 0)}));
  BAD(Batch({good, Entry(file, memory, 0)}));
  BAD(Batch({Entry(file, memory, 1, 1, 1)}));
  BAD(Batch({Entry(file, memory, kMemoryBytes)}));
  FATAL(Batch({Entry(file, memory, kMemoryBytes + 1)}));
  FATAL(Batch({Entry(file, memory, SIZE_MAX)}));
  FATAL(Batch({Entry(file, memory, std::size_t{1} << 62)}));
  BAD(Batch({Entry(file, memory, 4096, -1)}));
  BAD(Batch({good, Entry(file, memory, 4096, -1)}));
  BAD(Batch({Entry(file, memory, 4096, INT64_MIN)}));
  BAD(Batch({Entry(file, memory, 4096, INT64_MAX)}));
  BAD(Batch({Entry(file, memory, 4096, kFileBytes)}));
  BAD(Batch({Entry(file, memory, 4096, kFileBytes - 1)}));
  BAD(Batch({Entry(file, memory, 4096, 0, -1)}));
  BAD(Batch({Entry(file, memory + 4096, 4096, 0, -4096)}));
  BAD(Batch({Entry(file, memory, 4096, 0, kMemoryBytes - 4096)}));
  FATAL(Batch({Entry(file, memory, 4096, 0, kMemoryBytes)}));
  FATAL(Batch({Entry(file, memory, 4096, 0, INT64_MAX)}));
  BAD(Batch({Entry(file, host)}));
  BAD(Batch({Entry(file, managed)}));
  BAD(Batch({Entry(file, pinned)}));
  BAD(Batch({Entry(file, memory), Entry(file, host), Entry(file, pinned)}));
  BAD(Batch({Entry(file, Rubbish<void*>(1))}));
  BAD(Batch({Entry(file, Rubbish<void*>(4096))}));
  BAD(Batch({Entry(file, memory), Entry(file, memory, 4096, 0, 4096, CUFILE_WRITE)}));
  BAD(Batch({Entry(read_only, memory, 4096, 0, 0, CUFILE_WRITE)}));
  BAD(Batch({Entry(write_only, memory)}));
  BAD(Batch({Entry(file, memory), Entry(write_only, memory)}));
  BAD(Batch({Entry(direct, memory)}));
  BAD(Batch({Entry(direct, memory, 100, 1, 1)}));
  BAD(Batch({Entry(direct, memory), Entry(file, memory)}));
  BAD_AS("cuFileBufRegister after all", cuFileBufRegister(memory, 65536, 0));
}

void BatchBuffers() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const CUfileIOParams_t good = Entry(file, memory);
  MUST(cuFileBufRegister(memory, 65536, 0));
  BAD_AS("registered", Batch({good}));
  BAD_AS("registered, over the end", Batch({Entry(file, memory, 131072)}));
  BAD_AS("registered, beyond the end", Batch({Entry(file, memory, 4096, 0, 65536)}));
  char* const freed = Device();
  CHECK(cudaFree(freed));
  BAD_AS("freed", Batch({Entry(file, freed)}));
  const int closed = open(Path("data").c_str(), O_RDWR);
  const CUfileHandle_t closed_file = Register(closed);
  close(closed);
  BAD_AS("closed descriptor", Batch({Entry(closed_file, memory)}));
}

void BatchFlags() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  const CUfileIOParams_t good = Entry(file, memory);
  BAD(Batch({good}, 1));
  BAD(Batch({good}, 2));
  BAD(Batch({good}, 0x80000000));
  BAD(Batch({good}, ~0u));
  BAD_AS("as many as set up", Batch(std::vector<CUfileIOParams_t>(4, good), 0, 4));
  BAD_AS("one more than set up", Batch(std::vector<CUfileIOParams_t>(5, good), 0, 4));
  BAD_AS("128 entries", [&] {
    const std::string result = Batch(std::vector<CUfileIOParams_t>(128, good), 0, 128);
    return result.substr(0, result.find(','));
  }());
}

void BatchStatus() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  CUfileBatchHandle_t batch = nullptr;
  MUST(cuFileBatchIOSetUp(&batch, kEntries));
  std::vector<CUfileIOParams_t> entries = Entries(kEntries, Entry(file, memory));
  CUfileIOEvents_t events[512]{};
  unsigned number = 1;
  timespec zero = Seconds(0);
  timespec short_time = Seconds(0, 1'000'000);
  timespec second = Seconds(1);
  timespec negative = Seconds(-1);
  timespec negative_part = Seconds(0, -1);
  timespec long_part = Seconds(0, 2'000'000'000);
  const auto status = [&](unsigned least, unsigned most, timespec* timeout) {
    number = most;
    const std::string result = cuFileBatchIOGetStatus(batch, least, &number, events, timeout);
    return result + " nr " + std::to_string(number);
  };
  BAD(cuFileBatchIOGetStatus(nullptr, 0, &number, events, &zero));
  BAD(cuFileBatchIOGetStatus(Rubbish<CUfileBatchHandle_t>(1), 0, &number, events, &zero));
  BAD(cuFileBatchIOGetStatus(batch, 0, nullptr, events, &zero));
  number = 1;
  BAD(cuFileBatchIOGetStatus(batch, 0, &number, nullptr, &zero));
  BAD_AS("nothing submitted: status(0, 0, &zero)", status(0, 0, &zero));
  BAD_AS("nothing submitted: status(0, 1, &zero)", status(0, 1, &zero));
  BAD_AS("nothing submitted: status(0, 8, &zero)", status(0, 8, &zero));
  BAD_AS("nothing submitted: status(1, 1, &zero)", status(1, 1, &zero));
  BAD_AS("nothing submitted: status(1, 1, &short_time)", status(1, 1, &short_time));
  BAD_AS("nothing submitted: status(0, 1, nullptr)", status(0, 1, nullptr));
  BAD_AS("nothing submitted: status(1, 1, nullptr)", status(1, 1, nullptr));
  BAD_AS("nothing submitted: status(2, 1, &zero)", status(2, 1, &zero));
  BAD_AS("nothing submitted: status(9, 9, &zero)", status(9, 9, &zero));
  BAD_AS("nothing submitted: status(0, 9, &zero)", status(0, 9, &zero));
  BAD_AS("submit 4", cuFileBatchIOSubmit(batch, 4, entries.data(), 0));
  BAD(status(5, 4, &second));
  BAD(status(4, 4, &second));
  BAD_AS("after all: status(0, 4, &zero)", status(0, 4, &zero));
  BAD_AS("after all: status(1, 4, &short_time)", status(1, 4, &short_time));
  BAD_AS("submit 4 again", cuFileBatchIOSubmit(batch, 4, entries.data(), 0));
  BAD(status(0, 0, &second));
  BAD(status(1, 0, &second));
  BAD(status(2, 2, &second));
  BAD(status(2, 2, nullptr));
  BAD_AS("submit 1", cuFileBatchIOSubmit(batch, 1, entries.data(), 0));
  BAD_AS("status(1, 1, nullptr) of 1", status(1, 1, nullptr));
  BAD(status(1, 1, &negative));
  BAD(status(1, 1, &negative_part));
  BAD(status(1, 1, &long_part));
  BAD_AS("submit 2", cuFileBatchIOSubmit(batch, 2, entries.data(), 0));
  BAD(status(4, 8, &second));
  BAD(status(8, 512, &zero));
}

// A batch and its status after completion, cancellation and destruction.
void BatchEnd() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  std::vector<CUfileIOParams_t> entries = Entries(kEntries, Entry(file, memory));
  CUfileBatchHandle_t batch = nullptr;
  const auto set_up = [&] { return cuFileBatchIOSetUp(&batch, kEntries); };
  BAD(cuFileBatchIOCancel(nullptr));
  BAD(cuFileBatchIODestroy(nullptr));
  BAD(cuFileBatchIOCancel(Rubbish<CUfileBatchHandle_t>(1)));
  BAD(cuFileBatchIODestroy(Rubbish<CUfileBatchHandle_t>(1)));
  MUST(set_up());
  BAD_AS("cancel, nothing submitted", cuFileBatchIOCancel(batch));
  BAD_AS("cancel twice", cuFileBatchIOCancel(batch));
  BAD_AS("submit after it", cuFileBatchIOSubmit(batch, 2, entries.data(), 0));
  BAD_AS("events after it", Events(batch, 2));
  BAD_AS("cancel after completion", cuFileBatchIOCancel(batch));
  BAD_AS("destroy", cuFileBatchIODestroy(batch));
  BAD_AS("destroy twice", cuFileBatchIODestroy(batch));
  BAD_AS("cancel the destroyed batch", cuFileBatchIOCancel(batch));
  MUST(set_up());
  BAD_AS("destroy, nothing submitted", cuFileBatchIODestroy(batch));
  MUST(set_up());
  MUST(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0));
  BAD_AS("destroy without status", cuFileBatchIODestroy(batch));
  MUST(set_up());
  MUST(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0));
  cuFileHandleDeregister(file);
  BAD_AS("destroy after cuFileHandleDeregister", cuFileBatchIODestroy(batch));
}

// The entries passed to a submission, and the file, may go away after it.
void BatchLate() {
  Open();
  char* const memory = Device();
  const CUfileHandle_t file = Register(MakeFile("data"));
  CUfileBatchHandle_t batch = nullptr;
  MUST(cuFileBatchIOSetUp(&batch, kEntries));
  BAD_AS("entries overwritten after submission", [&] {
    std::vector<CUfileIOParams_t> entries = Entries(2, Entry(file, memory));
    const std::string result = cuFileBatchIOSubmit(batch, 2, entries.data(), 0);
    for (CUfileIOParams_t& each : entries) each = CUfileIOParams_t{};
    return result + ", " + Events(batch, 2);
  }());
  BAD_AS("thread without context", InThread([&] { return Batch({Entry(file, memory)}); }));
  CUfileIOParams_t entry = Entry(file, memory);
  entry.cookie = reinterpret_cast<void*>(1);
  BAD_AS("submit", cuFileBatchIOSubmit(batch, 1, &entry, 0));
  BAD_AS("status in another thread", InThread([&] { return Events(batch, 1); }));
}

}  // namespace cufile
