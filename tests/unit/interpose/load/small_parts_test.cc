#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interpose/load/object_list.h"
#include "interpose/load/warning.h"
#include "tests/unit/interpose/load/small_exports.h"
#include "tests/unit/interpose/load/test_files.h"

// Implementation of all functions in the generated table.
extern "C" int cuspan_load_test_refuse(const char* /*name*/) { return 801; }

namespace cuspan::load {
namespace {

TEST(ExportTable, FindsEachNameAndNoOther) {
  for (std::size_t i = 0; i < kSmallTable.count; ++i) {
    EXPECT_EQ(kSmallTable.Find(kSmallExports[i].name), i);
  }
  for (const char* name : {"", "a", "cudaMallo", "cudaMallocs", "zzz", "__cuda"}) {
    EXPECT_EQ(kSmallTable.Find(name), ExportTable::kNone) << name;
  }
  EXPECT_EQ((ExportTable{nullptr, 0}).Find("cudaFree"), ExportTable::kNone);
  EXPECT_NE(RuntimeExports().Find("cudaMalloc"), ExportTable::kNone);
}

TEST(ExportTable, AnswersForTheRuntimeByTheNamesItHas) {
  // The last form is the name used by tools for bundling a program's libraries.
  for (const char* name :
       {"libcudart.so.11.0", "libcudart.so.13", "libcudart-c64a25f3.so.12.3.101"}) {
    EXPECT_EQ(ReplacementsFor(name).entries, RuntimeExports().entries) << name;
  }
  for (const char* name : {"", "libc.so.6", "libcudart_static.a", "libcuda.so.1", "libcuspan.so"}) {
    EXPECT_EQ(ReplacementsFor(name).count, 0u) << name;
  }
}

bool Has(const std::string& text, const char* needle) {
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  return Contains(View(bytes), needle);
}

TEST(Contains, FindsStringsAnywhere) {
  EXPECT_TRUE(Has("needle", "needle"));
  EXPECT_TRUE(Has("a needle", "needle"));
  EXPECT_TRUE(Has("needle in hay", "needle"));
  EXPECT_TRUE(Has("neeneedle", "needle"));
  EXPECT_FALSE(Has("needl", "needle"));
  EXPECT_FALSE(Has("", "needle"));
  EXPECT_FALSE(Has("needlneedlneedl", "needle"));
  EXPECT_FALSE(Has("anything", ""));
  for (std::size_t at = 0; at < 100; ++at) {
    std::string hay(100, 'e');
    EXPECT_TRUE(Has(hay.insert(at, "needle"), "needle")) << at;
  }
}

TEST(Names, CompareAsStrcmp) {
  EXPECT_EQ(CompareNames("a", "a"), 0);
  EXPECT_LT(CompareNames("a", "b"), 0);
  EXPECT_GT(CompareNames("ab", "a"), 0);
  EXPECT_LT(CompareNames("", "a"), 0);
  EXPECT_GT(CompareNames("\xff", "a"), 0);
  EXPECT_TRUE(StartsWith("cudaMalloc", "cuda"));
  EXPECT_TRUE(StartsWith("cuda", ""));
  EXPECT_FALSE(StartsWith("cud", "cuda"));
}

TEST(Warning, IsNullUntilPublishedAndThenFixed) {
  Warning warning;
  EXPECT_EQ(warning.text(), nullptr);
  warning.Add("error ").AddNumber(0).Add(" of ").AddNumber(4294967295);
  EXPECT_EQ(warning.text(), nullptr);
  warning.Publish();
  EXPECT_STREQ(warning.text(), "error 0 of 4294967295");
  warning.Add("more").Publish();
  EXPECT_STREQ(warning.text(), "error 0 of 4294967295");
}

TEST(Warning, IsOneLineOfBoundedLength) {
  Warning warning;
  warning.Add("a\nb").Add(std::string(5000, 'x').c_str()).Publish();
  EXPECT_EQ(std::string(warning.text()).substr(0, 4), "a?bx");
  EXPECT_LT(std::string(warning.text()).size(), 1100u);
}

// Returns the objects of `maps` not seen by an earlier walk.
std::vector<const link_map*> Walk(ObjectList* list, const std::vector<link_map*>& maps) {
  std::vector<const link_map*> fresh;
  list->Begin();
  for (const link_map* map : maps) {
    if (!list->Seen(map)) fresh.push_back(map);
    EXPECT_TRUE(list->Keep(map));
  }
  list->End();
  return fresh;
}

TEST(ObjectList, TellsNewObjectsFromOldOnes) {
  ElfW(Dyn) dynamic[2] = {};
  std::vector<link_map> maps(1000);
  for (link_map& map : maps) map.l_ld = &dynamic[0];
  using Maps = std::vector<link_map*>;
  const auto at = [&](std::size_t index) { return &maps[index]; };
  ObjectList list;
  EXPECT_EQ(Walk(&list, {at(0), at(1), at(2)}).size(), 3u);
  EXPECT_TRUE(Walk(&list, {at(0), at(1), at(2)}).empty());
  EXPECT_EQ(Walk(&list, {at(0), at(2), at(3)}), (std::vector<const link_map*>{at(3)}));
  EXPECT_EQ(Walk(&list, {at(0), at(1), at(2), at(3)}), (std::vector<const link_map*>{at(1)}));
  maps[3].l_ld = &dynamic[1];  // Another object at the same address.
  EXPECT_EQ(Walk(&list, {at(0), at(1), at(2), at(3)}), (std::vector<const link_map*>{at(3)}));
  Maps all;
  for (link_map& map : maps) all.push_back(&map);
  EXPECT_EQ(Walk(&list, all).size(), maps.size() - 4);
  EXPECT_TRUE(Walk(&list, all).empty());
  EXPECT_TRUE(Walk(&list, {}).empty());
  EXPECT_EQ(Walk(&list, all).size(), maps.size());
}

}  // namespace
}  // namespace cuspan::load
