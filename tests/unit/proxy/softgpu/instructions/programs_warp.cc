// Cooperation of the threads of a warp and of a block. (PTX ISA, "Parallel Synchronization and
// Communication Instructions")
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/unit/proxy/softgpu/instructions/numbers.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

std::vector<U> RandomWords(std::size_t count, std::uint64_t seed) {
  std::vector<U> words(count);
  for (U& word : words) word = static_cast<U>(Random(seed));
  return words;
}

constexpr const char* kLoadWord =
    "mul.wide.u32 %rd0, %me, 4; add.s64 %rd0, %in, %rd0; ld.global.u32 %r0, [%rd0];\n";

template <typename Expected>
void AddWarpProgram(const std::string& name, const std::string& body, unsigned words,
                    Expected expected, std::vector<U> input = RandomWords(kLanes, 5),
                    unsigned target = 80) {
  Program program;
  program.group = "warp";
  program.name = name;
  program.body = kLoadWord + body;
  program.words_out = words;
  program.input = input;
  program.target = target;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned i = 0; i < words; ++i) program.expected.push_back(expected(input, lane, i));
  Programs().push_back(std::move(program));
}

void AddShuffles() {
  // (PTX ISA, "shfl.sync": its pseudo-code)
  struct Source {
    unsigned lane;
    bool valid;
  };
  const auto source = [](const std::string& mode, unsigned lane, unsigned b, unsigned c) {
    const int bval = static_cast<int>(b & 31), cval = static_cast<int>(c & 31);
    const int mask = static_cast<int>(c >> 8 & 31);
    const int own = static_cast<int>(lane);
    const int max_lane = (own & mask) | (cval & ~mask), min_lane = own & mask;
    int j = 0;
    bool valid = false;
    if (mode == "up") {
      j = own - bval;
      valid = j >= max_lane;
    } else if (mode == "down") {
      j = own + bval;
      valid = j <= max_lane;
    } else if (mode == "bfly") {
      j = own ^ bval;
      valid = j <= max_lane;
    } else {
      j = min_lane | (bval & ~mask & 31);
      valid = j <= max_lane;
    }
    return Source{static_cast<unsigned>(valid ? j : own), valid};
  };
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    for (const unsigned b : {0U, 1U, 3U, 16U, 31U}) {
      for (const unsigned c : {mode == "up" ? 0U : 31U, mode == "up" ? 0x1800U : 0x181fU}) {
        const std::string name =
            "shfl.sync." + mode + ".b32 " + std::to_string(b) + " " + std::to_string(c);
        AddWarpProgram(name,
                       "shfl.sync." + mode + ".b32 %r1|%p0, %r0, " + std::to_string(b) + ", " +
                           std::to_string(c) +
                           ", -1; selp.u32 %r2, 1, 0, %p0; st.global.v2.u32 [%out], {%r1, %r2};",
                       2, [=](const std::vector<U>& in, unsigned lane, unsigned i) {
                         const Source from = source(mode, lane, b, c);
                         return i == 0 ? in[from.lane] : U{from.valid};
                       });
      }
    }
  }
  AddWarpProgram("shfl.sync.idx of a lane that varies",
                 "and.b32 %r3, %r0, 31; shfl.sync.idx.b32 %r1, %me, %r3, 31, 0xffffffff;"
                 "st.global.u32 [%out], %r1;",
                 1,
                 [](const std::vector<U>& in, unsigned lane, unsigned) { return in[lane] & 31; });
}

U PopulationOf(const std::vector<U>& in, bool (*predicate)(U)) {
  U ballot = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) ballot |= U{predicate(in[lane])} << lane;
  return ballot;
}

void AddVotes() {
  const auto odd = [](U x) { return (x & 1) != 0; };
  const std::string predicate = "and.b32 %r1, %r0, 1; setp.ne.u32 %p0, %r1, 0;\n";
  AddWarpProgram(
      "vote.sync.ballot.b32",
      predicate + "vote.sync.ballot.b32 %r2, %p0, -1; st.global.u32 [%out], %r2;", 1,
      [=](const std::vector<U>& in, unsigned, unsigned) { return PopulationOf(in, odd); });
  AddWarpProgram(
      "vote.sync.ballot.b32 of half a warp",
      predicate +
          "setp.lt.u32 %p1, %lan, 16; mov.u32 %r2, 7; @%p1 vote.sync.ballot.b32 %r2, %p0, 0xffff;"
          "st.global.u32 [%out], %r2;",
      1, [=](const std::vector<U>& in, unsigned lane, unsigned) {
        return lane < 16 ? PopulationOf(in, odd) & 0xffff : 7;
      });
  for (const std::string mode : {"all", "any", "uni"}) {
    for (const std::string sign : {"", "!"}) {
      for (const U value : {0U, 1U, 2U}) {  // 2: mixed
        AddWarpProgram(
            "vote.sync." + mode + ".pred " + sign + std::to_string(value),
            predicate + "vote.sync." + mode + ".pred %p1, " + sign +
                "%p0, -1; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%out], %r2;",
            1,
            [=](const std::vector<U>&, unsigned, unsigned) {
              const bool all = sign.empty() ? value == 1 : value == 0;
              const bool none = sign.empty() ? value == 0 : value == 1;
              return U{mode == "all" ? all : mode == "any" ? !none : all || none};
            },
            value == 2 ? RandomWords(kLanes, 9) : std::vector<U>(kLanes, value));
      }
    }
  }
  AddWarpProgram("activemask.b32", "activemask.b32 %r2; st.global.u32 [%out], %r2;", 1,
                 [](const std::vector<U>&, unsigned, unsigned) { return 0xffffffffU; });
}

void AddMatches() {
  std::vector<U> few = RandomWords(kLanes, 3);
  for (U& word : few) word &= 3;
  AddWarpProgram(
      "match.any.sync.b32", "match.any.sync.b32 %r1, %r0, -1; st.global.u32 [%out], %r1;", 1,
      [](const std::vector<U>& in, unsigned lane, unsigned) {
        U mask = 0;
        for (unsigned other = 0; other < kLanes; ++other) mask |= U{in[other] == in[lane]} << other;
        return mask;
      },
      few);
  AddWarpProgram(
      "match.any.sync.b64",
      "cvt.u64.u32 %rd1, %r0; shl.b64 %rd1, %rd1, 33; match.any.sync.b64 %r1, %rd1, -1;"
      "st.global.u32 [%out], %r1;",
      1,
      [](const std::vector<U>& in, unsigned lane, unsigned) {
        U mask = 0;
        for (unsigned other = 0; other < kLanes; ++other) mask |= U{in[other] == in[lane]} << other;
        return mask;
      },
      few);
  for (const bool equal : {true, false}) {
    AddWarpProgram(
        std::string("match.all.sync.b32 ") + (equal ? "equal" : "not equal"),
        "match.all.sync.b32 %r1|%p0, %r0, -1; selp.u32 %r2, 1, 0, %p0;"
        "st.global.v2.u32 [%out], {%r1, %r2};",
        2,
        [=](const std::vector<U>&, unsigned, unsigned i) {
          return i == 0 ? (equal ? 0xffffffffU : 0U) : U{equal};
        },
        equal ? std::vector<U>(kLanes, 42) : few);
  }
}

void AddReductions() {
  using S = std::int32_t;
  struct Operation {
    const char* name;
    U (*combine)(U, U);
  };
  static constexpr Operation kOperations[] = {
      {"add.u32", [](U a, U b) { return a + b; }},
      {"add.s32", [](U a, U b) { return a + b; }},
      {"min.u32", [](U a, U b) { return std::min(a, b); }},
      {"max.u32", [](U a, U b) { return std::max(a, b); }},
      {"min.s32",
       [](U a, U b) { return static_cast<U>(std::min(static_cast<S>(a), static_cast<S>(b))); }},
      {"max.s32",
       [](U a, U b) { return static_cast<U>(std::max(static_cast<S>(a), static_cast<S>(b))); }},
      {"and.b32", [](U a, U b) { return a & b; }},
      {"or.b32", [](U a, U b) { return a | b; }},
      {"xor.b32", [](U a, U b) { return a ^ b; }},
  };
  for (const Operation& operation : kOperations) {
    const auto combine = operation.combine;
    AddWarpProgram(
        std::string("redux.sync.") + operation.name,
        std::string("redux.sync.") + operation.name + " %r1, %r0, -1; st.global.u32 [%out], %r1;",
        1, [=](const std::vector<U>& in, unsigned, unsigned) {
          U result = in[0];
          for (unsigned lane = 1; lane < kLanes; ++lane) result = combine(result, in[lane]);
          return result;
        });
  }
}

void AddBarriers() {
  const auto program = [](const std::string& name, const std::string& body, auto expected,
                          unsigned target = 80) {
    Program p;
    p.group = "barrier";
    p.name = name;
    p.threads = 128;
    p.shared_bytes = 1024;
    p.target = target;
    p.body = body;
    for (U t = 0; t < p.threads; ++t) p.expected.push_back(expected(t));
    Programs().push_back(std::move(p));
  };
  const std::string put =
      "mov.u32 %r1, shared; shl.b32 %r2, %me, 2; add.u32 %r1, %r1, %r2;"
      "mul.lo.u32 %r3, %me, 3; st.shared.u32 [%r1], %r3;\n";
  const std::string get =
      "xor.b32 %r4, %me, 127; shl.b32 %r4, %r4, 2; mov.u32 %r5, shared;"
      "add.u32 %r5, %r5, %r4; ld.shared.u32 %r6, [%r5]; st.global.u32 [%out], %r6;";
  const auto other = [](U t) { return 3 * (t ^ 127); };
  for (const std::string barrier :
       {"bar.sync 0;", "barrier.sync 1;", "barrier.sync.aligned 2, 128;", "bar.sync 3, 128;",
        "barrier.cta.sync.aligned 4;", "bar.cta.sync 5;"})
    program(barrier, put + barrier + get, other);
  program(
      "barrier.cluster of one block",
      put + "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" + get,
      other, 90);
  program("barrier.cluster.arrive.relaxed",
          put + "bar.sync 0; barrier.cluster.arrive.relaxed; barrier.cluster.wait;" + get, other,
          90);
  program("bar.arrive and bar.sync",
          put +
              "setp.lt.u32 %p0, %me, 64; @%p0 bra PRODUCE; bar.sync 1, 128; bra BEHIND;\n"
              "PRODUCE: bar.arrive 1, 128;\nBEHIND: bar.sync 0;" +
              get,
          other);
  program("bar.red.popc.u32",
          "and.b32 %r1, %me, 3; setp.eq.u32 %p0, %r1, 0; bar.red.popc.u32 %r2, 0, %p0;"
          "st.global.u32 [%out], %r2;",
          [](U) { return 32U; });
  program("bar.red.and.pred",
          "setp.lt.u32 %p0, %me, 127; bar.red.and.pred %p1, 0, %p0; selp.u32 %r2, 1, 0, %p1;"
          "st.global.u32 [%out], %r2;",
          [](U) { return 0U; });
  program(
      "barrier.red.or.pred",
      "setp.eq.u32 %p0, %me, 127; barrier.red.or.pred %p1, 1, 128, %p0; selp.u32 %r2, 1, 0, %p1;"
      "st.global.u32 [%out], %r2;",
      [](U) { return 1U; });
  program("bar.warp.sync", "bar.warp.sync -1; st.global.u32 [%out], %me;", [](U t) { return t; });
  program(
      "elect.sync",
      "elect.sync %r1|%p0, -1; selp.u32 %r2, 100, 0, %p0; add.u32 %r2, %r2, %r1;"
      "st.global.u32 [%out], %r2;",
      [](U t) { return t % 32 == 0 ? 100U : 0U; }, 90);
  program(
      "cluster registers",
      "mov.u32 %r1, %cluster_ctaid.x; mov.u32 %r2, %cluster_nctaid.x; mov.u32 %r3, "
      "%cluster_ctarank;"
      "mov.u32 %r4, %cluster_nctarank; mov.u32 %r5, %nclusterid.x; mov.u32 %r6, %clusterid.x;"
      "shl.b32 %r2, %r2, 4; shl.b32 %r4, %r4, 8; shl.b32 %r5, %r5, 12; or.b32 %r1, %r1, %r2;"
      "or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4; or.b32 %r1, %r1, %r5; or.b32 %r1, %r1, %r6;"
      "st.global.u32 [%out], %r1;",
      [](U) { return 0x1110U; }, 90);
  program("mapa and getctarank",
          put +
              "mapa.shared::cluster.u32 %r1, %r1, 0; getctarank.shared::cluster.u32 %r7, %r1;"
              "bar.sync 0; xor.b32 %r4, %me, 127; shl.b32 %r4, %r4, 2; mov.u32 %r5, shared;"
              "add.u32 %r5, %r5, %r4; mapa.shared::cluster.u32 %r5, %r5, %r7;"
              "ld.shared::cluster.u32 %r6, [%r5]; st.global.u32 [%out], %r6;",
          other, 90);
  program(
      "griddepcontrol, setmaxnreg-free hints",
      "griddepcontrol.wait; griddepcontrol.launch_dependents; st.global.u32 [%out], %me;",
      [](U t) { return t; }, 90);
  program(
      "special registers",
      "mov.u32 %r1, %ntid.x; mov.u32 %r2, %nctaid.x; shl.b32 %r2, %r2, 8; mov.u32 %r3, %laneid;"
      "shl.b32 %r3, %r3, 9; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %lanemask_lt; popc.b32 %r5, %r5;"
      "shl.b32 %r5, %r5, 16; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4;"
      "or.b32 %r1, %r1, %r5; st.global.u32 [%out], %r1;",
      [](U t) { return 128 | 1U << 8 | (t % 32) << 9 | (t % 32) << 16; });
}

}  // namespace

void AddWarpPrograms() {
  AddShuffles();
  AddVotes();
  AddMatches();
  AddReductions();
  AddBarriers();
}

}  // namespace cuspan::ptx_forms
