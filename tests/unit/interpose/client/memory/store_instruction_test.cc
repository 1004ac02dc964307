#include "interpose/client/memory/store_instruction.h"

#include <gtest/gtest.h>

#include <vector>

namespace cuspan {
namespace {

using Kind = StoreInstruction::Kind;
using Code = std::vector<unsigned char>;

StoreInstruction Decode(Code code) {
  code.resize(16, 0);
  return DecodeStore(code.data());
}

void ExpectStore(const Code& code, Kind kind, int bytes, int base, bool fences = false) {
  const StoreInstruction found = Decode(code);
  EXPECT_EQ(found.kind, kind) << ::testing::PrintToString(code);
  EXPECT_EQ(found.bytes, bytes) << ::testing::PrintToString(code);
  EXPECT_EQ(found.base, base) << ::testing::PrintToString(code);
  EXPECT_EQ(found.fences, fences) << ::testing::PrintToString(code);
}

void ExpectUnknown(const Code& code) {
  EXPECT_EQ(Decode(code).kind, Kind::kUnknown) << ::testing::PrintToString(code);
}

TEST(StoreInstruction, MovesOfGeneralRegisters) {
  ExpectStore({0x88, 0x03}, Kind::kStore, 1, 3);                           // mov [rbx], al
  ExpectStore({0x66, 0x89, 0x03}, Kind::kStore, 2, 3);                     // mov [rbx], ax
  ExpectStore({0x89, 0x03}, Kind::kStore, 4, 3);                           // mov [rbx], eax
  ExpectStore({0x48, 0x89, 0x03}, Kind::kStore, 8, 3);                     // mov [rbx], rax
  ExpectStore({0x49, 0x89, 0x44, 0xcd, 0x08}, Kind::kStore, 8, 13);        // mov [r13+rcx*8+8], rax
  ExpectStore({0x41, 0xc7, 0x04, 0x24, 1, 0, 0, 0}, Kind::kStore, 4, 12);  // mov dword [r12], 1
  ExpectStore({0xc6, 0x45, 0x10, 1}, Kind::kStore, 1, 5);                  // mov byte [rbp+16], 1
  ExpectStore({0x48, 0x0f, 0xc3, 0x01}, Kind::kStore, 8, 1);               // movnti [rcx], rax
  ExpectStore({0x0f, 0x94, 0x02}, Kind::kStore, 1, 2);                     // sete [rdx]
}

TEST(StoreInstruction, MovesOfVectorRegisters) {
  ExpectStore({0x0f, 0x11, 0x07}, Kind::kStore, 16, 7);                    // movups [rdi], xmm0
  ExpectStore({0xf3, 0x0f, 0x11, 0x07}, Kind::kStore, 4, 7);               // movss [rdi], xmm0
  ExpectStore({0xf2, 0x41, 0x0f, 0x11, 0x07}, Kind::kStore, 8, 15);        // movsd [r15], xmm0
  ExpectStore({0xf3, 0x0f, 0x7f, 0x07}, Kind::kStore, 16, 7);              // movdqu [rdi], xmm0
  ExpectStore({0x66, 0x0f, 0xd6, 0x07}, Kind::kStore, 8, 7);               // movq [rdi], xmm0
  ExpectStore({0x66, 0x48, 0x0f, 0x7e, 0x07}, Kind::kStore, 8, 7);         // movq [rdi], xmm0
  ExpectStore({0x66, 0x0f, 0xe7, 0x07}, Kind::kStore, 16, 7);              // movntdq [rdi], xmm0
  ExpectStore({0xc5, 0xfe, 0x7f, 0x07}, Kind::kStore, 32, 7);              // vmovdqu [rdi], ymm0
  ExpectStore({0xc4, 0xc1, 0x7e, 0x7f, 0x00}, Kind::kStore, 32, 8);        // vmovdqu [r8], ymm0
  ExpectStore({0xc5, 0xfa, 0x11, 0x07}, Kind::kStore, 4, 7);               // vmovss [rdi], xmm0
  ExpectStore({0xc4, 0xe3, 0x7d, 0x39, 0x07, 1}, Kind::kStore, 16, 7);     // vextracti128
  ExpectStore({0x62, 0xf1, 0xfe, 0x48, 0x7f, 0x07}, Kind::kStore, 64, 7);  // vmovdqu64 [rdi], zmm0
  ExpectStore({0x62, 0xf1, 0x7c, 0x28, 0x11, 0x47, 1}, Kind::kStore, 32, 7);  // vmovups ymm
  ExpectStore({0xdd, 0x1b}, Kind::kStore, 8, 3);                              // fstp qword [rbx]
  ExpectStore({0xdb, 0x3b}, Kind::kStore, 10, 3);                             // fstp tbyte [rbx]
}

TEST(StoreInstruction, MasksSelectElements) {
  const StoreInstruction words = Decode({0x62, 0xf1, 0xfe, 0x49, 0x7f, 0x07});  // vmovdqu64 {k1}
  EXPECT_EQ(words.mask, 1);
  EXPECT_EQ(words.element, 8);
  EXPECT_EQ(words.bytes, 64);
  const StoreInstruction bytes = Decode({0x62, 0xf1, 0x7f, 0x2a, 0x7f, 0x07});  // vmovdqu8 {k2}
  EXPECT_EQ(bytes.mask, 2);
  EXPECT_EQ(bytes.element, 1);
  EXPECT_EQ(bytes.bytes, 32);
  const StoreInstruction floats = Decode({0x62, 0xf1, 0x7c, 0x0b, 0x11, 0x07});  // vmovups {k3}
  EXPECT_EQ(floats.mask, 3);
  EXPECT_EQ(floats.element, 4);
  EXPECT_EQ(floats.bytes, 16);
}

TEST(StoreInstruction, Updates) {
  ExpectStore({0x01, 0x03}, Kind::kUpdate, 4, 3);                    // add [rbx], eax
  ExpectStore({0x48, 0x83, 0x03, 1}, Kind::kUpdate, 8, 3);           // add qword [rbx], 1
  ExpectStore({0x48, 0xff, 0x03}, Kind::kUpdate, 8, 3);              // inc qword [rbx]
  ExpectStore({0xf0, 0x0f, 0xc1, 0x03}, Kind::kUpdate, 4, 3, true);  // lock xadd [rbx], eax
  ExpectStore({0xf0, 0x48, 0x0f, 0xb1, 0x0b}, Kind::kUpdate, 8, 3,
              true);                                     // lock cmpxchg [rbx], rcx
  ExpectStore({0x87, 0x03}, Kind::kUpdate, 4, 3, true);  // xchg [rbx], eax
  ExpectStore({0xf0, 0x48, 0x0f, 0xc7, 0x0e}, Kind::kUpdate, 16, 6, true);  // lock cmpxchg16b [rsi]
}

TEST(StoreInstruction, Strings) {
  const StoreInstruction fill = Decode({0xf3, 0x48, 0xab});  // rep stosq
  EXPECT_EQ(fill.kind, Kind::kFill);
  EXPECT_EQ(fill.bytes, 8);
  EXPECT_TRUE(fill.repeated);
  EXPECT_EQ(fill.length, 3);
  const StoreInstruction copy = Decode({0xa4});  // movsb
  EXPECT_EQ(copy.kind, Kind::kCopy);
  EXPECT_EQ(copy.bytes, 1);
  EXPECT_FALSE(copy.repeated);
  EXPECT_EQ(copy.length, 1);
}

TEST(StoreInstruction, AddressesThatCannotBeShifted) {
  ExpectUnknown({0x48, 0x89, 0x1b});                          // mov [rbx], rbx
  ExpectUnknown({0x88, 0x20});                                // mov [rax], ah
  ExpectUnknown({0x48, 0x89, 0x04, 0xdb});                    // mov [rbx+rbx*8], rax
  ExpectUnknown({0x48, 0x89, 0x04, 0x24});                    // mov [rsp], rax
  ExpectUnknown({0x48, 0x89, 0x05, 0, 0, 0, 0});              // mov [rip], rax
  ExpectUnknown({0x64, 0x48, 0x89, 0x03});                    // mov fs:[rbx], rax
  ExpectUnknown({0xf0, 0x48, 0x0f, 0xb1, 0x08});              // lock cmpxchg [rax], rcx
  ExpectUnknown({0xd3, 0x21});                                // shl dword [rcx], cl
  ExpectUnknown({0x62, 0xf2, 0x7d, 0x49, 0xa0, 0x04, 0x07});  // vpscatterdd
}

TEST(StoreInstruction, OthersAreUnknown) {
  ExpectUnknown({0x48, 0x39, 0x03});        // cmp [rbx], rax
  ExpectUnknown({0x48, 0x8b, 0x03});        // mov rax, [rbx]
  ExpectUnknown({0x0f, 0xae, 0x03});        // fxsave [rbx]
  ExpectUnknown({0xff, 0x33});              // push [rbx]
  ExpectUnknown({0x89, 0xc3});              // mov ebx, eax
  ExpectUnknown({0xf3, 0x0f, 0x7e, 0x07});  // movq xmm0, [rdi]
}

}  // namespace
}  // namespace cuspan
