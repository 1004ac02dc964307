// Tests linking the PTX of several objects. (CUDA C++ Programming Guide, nvcc "Separate
// Compilation"; PTX ISA, "Linking Directives")
#include "proxy/ptx/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/ptx/index.h"

namespace cuspan::ptx {
namespace {

using testing::HasSubstr;

std::string Object(const std::string& body, const std::string& version = "9.0",
                   const std::string& target = "sm_75") {
  return ".version " + version + "\n.target " + target + "\n.address_size 64\n" + body;
}

// The linked text, and its declarations.
struct Linked {
  explicit Linked(const std::vector<std::string>& texts) {
    auto made = LinkModules(texts);
    if (!made.ok()) {
      error = made.status().message();
      return;
    }
    text = *made;
    auto index = IndexModule(text);
    if (index.ok())
      module = std::move(*index);
    else
      error = index.status().message();
  }
  std::string text;
  std::string error;
  Module module;
};

TEST(LinkTest, FindsFunctionsAndVariablesOfOtherObjects) {
  const Linked linked(
      {Object(".extern .func (.param .b32 r) twice\n(\n.param .b32 p\n)\n;\n"
              ".extern .global .align 4 .u32 counter;\n"
              ".visible .entry kernel(.param .u64 k)\n{\n  ret;\n}\n"),
       Object("// counts\n.visible .global .align 4 .u32 counter = 7;\n"
              ".visible .func (.param .b32 r) twice(.param .b32 p)\n{\n  ret;\n}\n")});
  ASSERT_EQ(linked.error, "");
  ASSERT_NE(linked.module.FindFunction("twice"), nullptr);
  EXPECT_TRUE(linked.module.FindFunction("twice")->defined);
  EXPECT_TRUE(linked.module.FindFunction("kernel")->entry);
  const Variable* counter = linked.module.FindVariable("counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_FALSE(counter->external);
  EXPECT_EQ(counter->initial.at(0), 7);
}

TEST(LinkTest, NamesOfOneObjectStayItsOwn) {
  const std::string own = ".global .align 1 .b8 $str[2] = {65, 0};\n";
  const std::string other = ".global .align 1 .b8 $str[2] = {66, 0};\n";
  const auto kernel = [](const std::string& name) {
    return ".visible .entry " + name +
           "()\n{\n  .reg .b64 %rd<2>;\n  mov.u64 %rd1, $str;\n  ret;\n}\n";
  };
  const Linked linked({Object(own + kernel("one")), Object(other + kernel("two"))});
  ASSERT_EQ(linked.error, "");
  const Function* one = linked.module.FindFunction("one");
  const Function* two = linked.module.FindFunction("two");
  ASSERT_TRUE(one != nullptr && two != nullptr);
  const auto value = [&](const Function& function) {
    for (const Variable& variable : linked.module.variables) {
      const std::string_view body =
          std::string_view(linked.text)
              .substr(function.body_begin, function.body_end - function.body_begin);
      if (body.find(std::string(variable.name) + ";") != std::string_view::npos)
        return variable.initial.at(0);
    }
    return std::uint8_t{0};
  };
  EXPECT_EQ(value(*one), 65);
  EXPECT_EQ(value(*two), 66);
}

TEST(LinkTest, OneOfSeveralWeakDefinitionsStaysAndGivesWayToAStrongOne) {
  const std::string weak =
      ".weak .func inlined()\n{\n  ret;\n}\n.weak .global .align 4 .u32 w = 1;\n";
  const Linked both({Object(weak), Object(weak)});
  ASSERT_EQ(both.error, "");
  EXPECT_TRUE(both.module.FindFunction("inlined")->defined);
  const Linked strong(
      {Object(weak), Object(".visible .global .align 4 .u32 w = 2;\n"), Object(weak)});
  ASSERT_EQ(strong.error, "");
  EXPECT_EQ(strong.module.FindVariable("w")->initial.at(0), 2);
}

TEST(LinkTest, TheNewestVersionAndTargetCount) {
  const Linked linked({Object("", "8.7", "sm_90"), Object("", "10.0", "sm_75"), Object("", "9.2")});
  ASSERT_EQ(linked.error, "");
  EXPECT_EQ(linked.module.version, 100u);
  EXPECT_EQ(linked.module.target, 90u);
}

TEST(LinkTest, TwoStrongDefinitionsAreAnError) {
  const std::string visible = ".visible .func same()\n{\n  ret;\n}\n";
  EXPECT_THAT(Linked({Object(visible), Object(visible)}).error, HasSubstr("'same'"));
}

TEST(LinkTest, NamesWhatIsUsedAndNotDefined) {
  const auto undefined = [](const std::string& body) {
    auto names = UndefinedNames(Object(body));
    return names.ok() ? *names : std::vector<std::string>{names.status().message()};
  };
  EXPECT_THAT(undefined(".extern .func called();\n.extern .func unused();\n"
                        ".extern .global .align 4 .u32 read;\n"
                        ".extern .shared .align 4 .b8 dynamic[];\n"
                        ".global .align 8 .u64 pointer = named;\n.extern .global .u32 named;\n"
                        ".visible .entry kernel()\n{\n  .reg .b32 %r<3>;\n  call called;\n"
                        "  ld.global.u32 %r1, [read+4];\n  ld.shared.u32 %r2, [dynamic];\n"
                        "  ret;\n}\n"),
              testing::UnorderedElementsAre("called", "read", "named"));
  EXPECT_THAT(undefined(".func own()\n{\n  ret;\n}\n"
                        ".visible .entry kernel()\n{\n  call own;\n  ret;\n}\n"),
              testing::IsEmpty());
  EXPECT_THAT(undefined(".visible .entry kernel()\n{\n  this is none;\n}\n"),
              testing::ElementsAre(HasSubstr("line")));
}

TEST(LinkTest, WhatIsNoPtxIsAnError) {
  EXPECT_NE(Linked({Object(""), "nonsense"}).error, "");
  EXPECT_NE(Linked({Object(".visible .func open()\n{\n  ret;\n")}).error, "");
  EXPECT_NE(Linked({Object(".global .align 4 .u32 endless")}).error, "");
  EXPECT_NE(Linked({".visible .entry kernel() { ret; }"}).error, "");
  EXPECT_NE(Linked({}).error, "");
}

}  // namespace
}  // namespace cuspan::ptx
