#include "interpose/load/stripped_cudart.h"

#include <iterator>

#include "interpose/load/name_references.h"
#include "interpose/load/unwind_table.h"

namespace cuspan::load {
namespace {

constexpr std::uint64_t kAlignment = 16;       // Alignment of the runtime's functions.
constexpr std::size_t kFewestFunctions = 200;  // Named functions: CUDA 11.0 has about 290.
constexpr std::size_t kMaxExports = 1024;

// A function referring to names.
struct Candidate {
  std::size_t function;
  std::size_t export_index;  // ExportTable::kNone: several names.
  std::size_t first_call;    // First function called, or kNowhere.
};

struct Candidates {
  Candidate items[NameReferences::kCapacity];
  std::size_t count;
};

// Working memory, too large for the stack of a small thread.
constinit NameReferences references = {};
constinit Candidates candidates = {};
constinit std::size_t function_of[kMaxExports] = {};  // Indexed by export; kNowhere: not found.

// Functions of a file and their calls.
class Functions {
 public:
  bool Parse(const ElfImage& image) { return table_.Parse(image); }
  const UnwindTable& table() const { return table_; }

  // Destination of a call or jump in `code` of function `index`, or kNowhere. Its 4-byte distance
  // is at `at`.
  std::size_t LedTo(std::size_t index, Bytes code, std::size_t at) const {
    std::int32_t distance;
    if (!code.Read(at, &distance)) return kNowhere;
    return table_.At(table_.Start(index) + at + sizeof(distance) +
                     static_cast<std::uint64_t>(std::int64_t{distance}));
  }
  // First function called by `index`, or kNowhere. Other bytes may look like a call, but not like a
  // call of a function's start.
  std::size_t FirstCall(std::size_t index) const {
    const Bytes code = table_.Code(index);
    for (std::size_t at = 0; at < code.size; ++at) {
      if (code.data[at] != kCall) continue;
      if (const std::size_t called = LedTo(index, code, at + 1); called != kNowhere) return called;
    }
    return kNowhere;
  }
  bool Calls(std::size_t index, std::size_t other) const {
    const Bytes code = table_.Code(index);
    for (std::size_t at = 0; at < code.size; ++at) {
      if (code.data[at] == kCall && LedTo(index, code, at + 1) == other) return true;
    }
    return false;
  }
  // Destination if `index` is only a jump, or kNowhere.
  std::size_t JumpsTo(std::size_t index) const {
    constexpr std::size_t kJumpSize = 5;
    const Bytes code = table_.Code(index);
    if (code.size < kJumpSize || code.size > kAlignment) return kNowhere;
    const std::size_t at = code.size - kJumpSize;
    return code.data[at] == kJump ? LedTo(index, code, at + 1) : kNowhere;
  }
  // True if at most padding separates `index` from the preceding function.
  bool FollowsOn(std::size_t index) const {
    const std::uint64_t size = table_.Size(index - 1);
    return size != 0 && table_.Start(index) == AlignedEnd(index - 1);
  }
  // First possible start of the next function.
  std::uint64_t AlignedEnd(std::size_t index) const {
    return (table_.Start(index) + table_.Size(index) + kAlignment - 1) & ~(kAlignment - 1);
  }
  bool Holds(std::size_t index) const { return index < table_.count(); }

 private:
  static constexpr std::uint8_t kCall = 0xe8;
  static constexpr std::uint8_t kJump = 0xe9;
  UnwindTable table_;
};

// Collects the functions referring to names, from references ordered by function.
void FindCandidates(const Functions& functions) {
  candidates.count = 0;
  for (std::size_t i = 0; i < references.count;) {
    const NameReference& first = references.items[i];
    std::size_t end = i + 1;
    while (end < references.count && references.items[end].function == first.function) ++end;
    candidates.items[candidates.count++] = {first.function,
                                            end == i + 1 ? first.export_index : ExportTable::kNone,
                                            functions.FirstCall(first.function)};
    i = end;
  }
}

// Function called first by most candidates. kNowhere: not a runtime.
std::size_t CommonFirstCall() {
  Sort(candidates.items, candidates.count,
       [](const Candidate& a, const Candidate& b) { return a.first_call < b.first_call; });
  std::size_t best = kNowhere;
  std::size_t most = kFewestFunctions - 1;
  for (std::size_t i = 0; i < candidates.count;) {
    std::size_t end = i + 1;
    while (end < candidates.count &&
           candidates.items[end].first_call == candidates.items[i].first_call) {
      ++end;
    }
    if (end - i > most && candidates.items[i].first_call != kNowhere) {
      best = candidates.items[i].first_call;
      most = end - i;
    }
    i = end;
  }
  return best;
}

// Assigns a function to each name. False if two functions claim a name, or one function claims
// several.
bool NameFunctions(std::size_t common) {
  for (std::size_t& function : function_of) function = kNowhere;
  for (std::size_t i = 0; i < candidates.count; ++i) {
    const Candidate& candidate = candidates.items[i];
    if (candidate.first_call != common) continue;
    if (candidate.export_index == ExportTable::kNone ||
        function_of[candidate.export_index] != kNowhere) {
      return false;
    }
    function_of[candidate.export_index] = candidate.function;
  }
  return true;
}

// Search for the functions without a name reference.
class Nameless {
 public:
  Nameless(const Functions& functions, const ExportTable& exports, std::size_t common)
      : functions_(functions), exports_(exports), common_(common) {}

  bool Find() const {
    const std::size_t module = Named("__cudaInitModule");
    if (module == kNowhere) return false;
    // CUDA 11 and earlier also register textures and surfaces.
    constexpr const char* kBefore11[] = {"cudaGetExportTable",         "__cudaRegisterFatBinary",
                                         "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary",
                                         "__cudaRegisterVar",          "__cudaRegisterManagedVar",
                                         "__cudaRegisterHostVar",      "__cudaRegisterTexture",
                                         "__cudaRegisterSurface",      "__cudaRegisterFunction"};
    constexpr const char* kBefore[] = {"cudaGetExportTable",         "__cudaRegisterFatBinary",
                                       "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary",
                                       "__cudaRegisterVar",          "__cudaRegisterManagedVar",
                                       "__cudaRegisterHostVar",      "__cudaRegisterFunction"};
    // Number of functions directly before `module` beginning with the common call.
    std::size_t registering = 0;
    while (registering < module && functions_.FollowsOn(module - registering) &&
           functions_.FirstCall(module - registering - 1) == common_) {
      ++registering;
    }
    if (registering + 1 == std::size(kBefore)) {
      return FindAround(module, kBefore, std::size(kBefore)) && FindLaunches(module);
    }
    return registering + 1 == std::size(kBefore11) &&
           FindAround(module, kBefore11, std::size(kBefore11)) && EndsWithConfiguration(module);
  }

 private:
  // Names the functions before __cudaInitModule, beginning with cudaGetExportTable, and the two
  // after it.
  bool FindAround(std::size_t module, const char* const* names, std::size_t count) const {
    const std::size_t first = module - count;
    const std::size_t push = module + 1;
    const std::size_t pop = module + 2;
    // Index of __cudaRegisterVar, equal in size to the next, __cudaRegisterManagedVar.
    constexpr std::size_t kTwin = 4;
    if (module < count || !functions_.Holds(pop + 1)) return false;
    if (!functions_.FollowsOn(first + 1) || !functions_.FollowsOn(push) ||
        !functions_.FollowsOn(pop) || !functions_.FollowsOn(pop + 1)) {
      return false;
    }
    if (functions_.table().Size(first + kTwin) != functions_.table().Size(first + kTwin + 1)) {
      return false;
    }
    // Both first get the calling thread's state. On errors, cudaGetExportTable does so too.
    const std::size_t state = functions_.FirstCall(push);
    if (state == kNowhere || state == common_ || functions_.FirstCall(pop) != state ||
        !functions_.Calls(first, state)) {
      return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!Name(names[i], first + i)) return false;
    }
    return Name("__cudaPushCallConfiguration", push) && Name("__cudaPopCallConfiguration", pop);
  }
  // Names the functions after those two, in CUDA 12 and later.
  bool FindLaunches(std::size_t module) const {
    const std::size_t get = module + 3;
    const std::size_t launch = get + 1;
    const std::size_t launch_ptsz = get + 2;
    const std::size_t table = get + 3;
    if (!functions_.Holds(table) || !functions_.FollowsOn(launch) ||
        !functions_.FollowsOn(launch_ptsz) || !functions_.FollowsOn(table)) {
      return false;
    }
    return Leads(launch, "cudaLaunchKernel") && Leads(launch_ptsz, "cudaLaunchKernel_ptsz") &&
           functions_.FirstCall(table) == common_ && Name("__cudaGetKernel", get) &&
           Name("__cudaLaunchKernel", launch) && Name("__cudaLaunchKernel_ptsz", launch_ptsz) &&
           Name("__cudaRegisterUnifiedTable", table);
  }
  // True if no launch function follows those two, but a function returning a constant.
  bool EndsWithConfiguration(std::size_t module) const {
    const std::size_t next = module + 3;
    return functions_.FirstCall(next) == kNowhere && functions_.table().Size(next) <= kAlignment &&
           functions_.JumpsTo(next) == kNowhere;
  }
  bool Leads(std::size_t function, const char* name) const {
    const std::size_t there = functions_.JumpsTo(function);
    return there != kNowhere && there == Named(name);
  }
  std::size_t Named(const char* name) const {
    const std::size_t index = exports_.Find(name);
    return index == ExportTable::kNone ? kNowhere : function_of[index];
  }
  // Names a function. True if the name is not exported by us. False if it already has a function.
  bool Name(const char* name, std::size_t function) const {
    const std::size_t index = exports_.Find(name);
    if (index == ExportTable::kNone) return true;
    if (function_of[index] != kNowhere) return false;
    function_of[index] = function;
    return true;
  }

  const Functions& functions_;
  const ExportTable& exports_;
  const std::size_t common_;
};

}  // namespace

bool FindStrippedCudart(const ElfImage& image, const ExportTable& exports, TargetList* out) {
  out->count = 0;
  Functions functions;
  if (exports.count > kMaxExports || !functions.Parse(image) ||
      !FindNameReferences(image, exports, functions.table(), &references)) {
    return false;
  }
  FindCandidates(functions);
  const std::size_t common = CommonFirstCall();
  if (common == kNowhere || !NameFunctions(common) ||
      !Nameless(functions, exports, common).Find()) {
    return false;
  }
  for (std::size_t i = 0; i < exports.count; ++i) {
    const std::size_t function = function_of[i];
    if (function == kNowhere) continue;
    const UnwindTable& table = functions.table();
    std::uint64_t limit = functions.AlignedEnd(function);
    if (functions.Holds(function + 1) && table.Start(function + 1) < limit) {
      limit = table.Start(function + 1);
    }
    out->targets[out->count++] = {table.Start(function), table.Size(function), limit, i};
  }
  SortByAddress(out);
  return true;
}

}  // namespace cuspan::load
