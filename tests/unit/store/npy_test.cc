#include "store/layout/npy.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cuspan::store {
namespace {

std::string FileOf(const std::string& dictionary, int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  const std::size_t size = dictionary.size();
  for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte)
    file += static_cast<char>(size >> (8 * byte) & 0xff);
  return file + dictionary;
}

Result<ArrayShape> Parse(const std::string& file, const Element& element = {4, 'f'}) {
  return ShapeOfNpy(std::as_bytes(std::span(file)), element);
}

StatusCode CodeOf(const std::string& dictionary) {
  return Parse(FileOf(dictionary)).status().code();
}

TEST(NpyTest, ShapesOfAllVersions) {
  for (const int major : {1, 2, 3}) {
    const std::string file =
        FileOf("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }   \n", major);
    const Result<ArrayShape> shape = Parse(file);
    ASSERT_TRUE(shape.ok()) << shape.status().message();
    EXPECT_EQ(shape->start, file.size());
    EXPECT_EQ(shape->count, 24u);
    EXPECT_EQ(shape->dimensions, 3);
    EXPECT_EQ(shape->sizes, (std::array<std::uint64_t, 4>{2, 3, 4, 1}));
  }
}

TEST(NpyTest, SpellingsOfTheFormat) {
  for (const char* const dictionary :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (24,)}",
        "{ \"shape\" : ( 24 , ) , \"descr\" : \"<f4\" , \"fortran_order\" : False }",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (24L,)}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (24,)}"}) {
    const Result<ArrayShape> shape = Parse(FileOf(dictionary));
    ASSERT_TRUE(shape.ok()) << dictionary << ": " << shape.status().message();
    EXPECT_EQ(shape->count, 24u);
  }
  EXPECT_EQ(Parse(FileOf("{'descr': '|u1', 'fortran_order': False, 'shape': ()}"), {1, 'u'})->count,
            1u);
  EXPECT_EQ(Parse(FileOf("{'descr': '<u4', 'fortran_order': False, 'shape': (3,)}"), {4, 0})->count,
            3u);
}

TEST(NpyTest, OtherElements) {
  EXPECT_EQ(CodeOf("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}"),
            StatusCode::kInvalid);
  EXPECT_EQ(CodeOf("{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}"),
            StatusCode::kInvalid);
  EXPECT_EQ(CodeOf("{'descr': '>f4', 'fortran_order': False, 'shape': (3,)}"),
            StatusCode::kUnsupported);
  EXPECT_EQ(CodeOf("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}"),
            StatusCode::kUnsupported);
  EXPECT_EQ(CodeOf("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,)}"),
            StatusCode::kUnsupported);
  EXPECT_EQ(CodeOf("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2)}"),
            StatusCode::kUnsupported);
  EXPECT_EQ(CodeOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1)}"),
            StatusCode::kUnsupported);
}

TEST(NpyTest, NoHeaders) {
  for (const char* const dictionary :
       {"", "{", "}", "{}", "{'descr'", "{'descr': ", "{'descr': '<f4'", "{'shape': (3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f99999999999', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"})
    EXPECT_EQ(CodeOf(dictionary), StatusCode::kInvalid) << dictionary;
}

// Every start of a header, and headers with random bytes in them: no crash, no endless loop.
TEST(NpyTest, DamagedHeaders) {
  const std::string whole =
      FileOf("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }  \n");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(Parse(whole.substr(0, bytes)).ok()) << bytes;
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    const Result<ArrayShape> shape = Parse(damaged);
    if (shape.ok()) {
      EXPECT_LE(shape->start, damaged.size());
    }
  }
}

}  // namespace
}  // namespace cuspan::store
