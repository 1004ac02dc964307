// Surfaces. (PTX ISA, "Surface Instructions")
#include "tests/unit/proxy/softgpu/instructions/forms.h"
#include "tests/unit/proxy/softgpu/instructions/images.h"

namespace cuspan::ptx_forms {
namespace {

using U = std::uint32_t;

std::function<std::uint64_t(Gpu&)> Surface(Shape shape, CUarray_format format, unsigned channels) {
  shape.flags |= CUDA_ARRAY3D_SURFACE_LDST;
  return [=](Gpu& gpu) {
    const CUDA_RESOURCE_DESC resource = MakeResource(gpu, shape, format, channels);
    CUsurfObject object = 0;
    gpu.Check(gpu.cuSurfObjectCreate(&object, &resource), "cuSurfObjectCreate");
    return std::uint64_t{object};
  };
}

}  // namespace

void AddSurfacePrograms() {
  const auto program = [](const std::string& name, const Shape& shape, CUarray_format format,
                          unsigned channels, const std::string& body, unsigned words,
                          auto expected) {
    Program p;
    p.group = "surface";
    p.name = name;
    p.image = Surface(shape, format, channels);
    p.body = body;
    p.words_out = words;
    for (U t = 0; t < 32; ++t)
      for (U i = 0; i < words; ++i) p.expected.push_back(expected(t, i));
    Programs().push_back(std::move(p));
  };
  const auto stored = [](U x, U y, U z, U c) {
    return static_cast<U>(static_cast<std::int32_t>(ValueAt(x, y, z, c, 0)) * 3 + 7);
  };
  const std::string place = "and.b32 %r0, %me, 7; shr.u32 %r1, %me, 3; ";  // 8 × 4
  program("suld.b.2d.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "shl.b32 %r0, %r0, 2; suld.b.2d.b32.trap %r2, [%image, {%r0, %r1}]; st.global.u32 "
              "[%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, t >> 3, 0, 0); });
  program(
      "suld.b.2d.v4.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 4,
      place +
          "shl.b32 %r0, %r0, 4; suld.b.2d.v4.b32.trap {%r2, %r3, %r4, %r5}, [%image, {%r0, %r1}];"
          "st.global.v4.u32 [%out], {%r2, %r3, %r4, %r5};",
      4, [=](U t, U i) { return stored(t & 7, t >> 3, 0, i); });
  program("suld.b.2d.v2.b16.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT16, 2,
          place +
              "shl.b32 %r0, %r0, 2; suld.b.2d.v2.b16.trap {%h0, %h1}, [%image, {%r0, %r1}]; "
              "mov.b32 %r2, {%h0, %h1};"
              "st.global.u32 [%out], %r2;",
          1, [=](U t, U) {
            return (stored(t & 7, t >> 3, 0, 0) & 0xffff) | stored(t & 7, t >> 3, 0, 1) << 16;
          });
  program("suld.b.1d.b8.trap", {32}, CU_AD_FORMAT_UNSIGNED_INT8, 1,
          "suld.b.1d.b8.trap %h0, [%image, {%me}]; cvt.u32.u16 %r2, %h0; and.b32 %r2, %r2, 255; "
          "st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t, 0, 0, 0) & 0xff; });
  program("suld.b.3d.b64.trap", {8, 2, 2}, CU_AD_FORMAT_UNSIGNED_INT32, 2,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 3; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "suld.b.3d.b64.trap %rd0, [%image, {%r0, %r1, %r2, %r2}]; st.global.u64 [%out], %rd0;",
          2, [=](U t, U i) { return stored(t & 7, t >> 3 & 1, t >> 4, i); });
  program("suld.b.a2d.b32.trap", {8, 2, 2, CUDA_ARRAY3D_LAYERED}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 2; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "suld.b.a2d.b32.trap %r3, [%image, {%r2, %r0, %r1, %r1}]; st.global.u32 [%out], %r3;",
          1, [=](U t, U) { return stored(t & 7, t >> 3 & 1, t >> 4, 0); });
  program("suld.b.2d.b32.zero", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "sub.s32 %r0, %r0, 2; shl.b32 %r0, %r0, 2; suld.b.2d.b32.zero %r2, [%image, {%r0, "
              "%r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return (t & 7) < 2 ? 0 : stored((t & 7) - 2, t >> 3, 0, 0); });
  program("suld.b.2d.b32.clamp", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "sub.s32 %r1, %r1, 2; shl.b32 %r0, %r0, 2; suld.b.2d.b32.clamp %r2, [%image, {%r0, "
              "%r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, (t >> 3) < 2 ? 0 : (t >> 3) - 2, 0, 0); });
  program("sust.b.2d.v2.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 2,
          place +
              "shl.b32 %r0, %r0, 3; add.u32 %r2, %me, 100; add.u32 %r3, %me, 200; "
              "sust.b.2d.v2.b32.trap [%image, {%r0, %r1}], {%r2, %r3};"
              "suld.b.2d.v2.b32.trap {%r4, %r5}, [%image, {%r0, %r1}]; st.global.v2.u32 [%out], "
              "{%r4, %r5};",
          2, [=](U t, U i) { return t + 100 + 100 * i; });
  // Access by texels, in the surface's own format.
  program("sust.p.2d.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "add.u32 %r2, %me, 100; shl.b32 %r3, %r0, 2; "
              "sust.p.2d.b32.trap [%image, {%r0, %r1}], %r2;"
              "suld.b.2d.b32.trap %r4, [%image, {%r3, %r1}]; st.global.u32 [%out], %r4;",
          1, [=](U t, U) { return t + 100; });
  program("sust.p.2d.v2.b32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 2,
          place +
              "add.u32 %r2, %me, 100; add.u32 %r3, %me, 200; shl.b32 %r4, %r0, 3; "
              "sust.p.2d.v2.b32.trap [%image, {%r0, %r1}], {%r2, %r3};"
              "suld.b.2d.v2.b32.trap {%r5, %r6}, [%image, {%r4, %r1}]; st.global.v2.u32 [%out], "
              "{%r5, %r6};",
          2, [=](U t, U i) { return t + 100 + 100 * i; });
  program("sust.b.1d.b16.zero", {16}, CU_AD_FORMAT_UNSIGNED_INT16, 1,
          "shl.b32 %r0, %me, 1; cvt.u16.u32 %h0, %me; sust.b.1d.b16.zero [%image, {%r0}], %h0; "
          "suld.b.1d.b16.zero %h1, [%image, {%r0}];"
          "cvt.u32.u16 %r1, %h1; st.global.u32 [%out], %r1;",
          1, [=](U t, U) { return t < 16 ? t : 0; });
  program("sust.b.3d.b32.trap", {8, 2, 2}, CU_AD_FORMAT_FLOAT, 1,
          "and.b32 %r0, %me, 7; shl.b32 %r0, %r0, 2; shr.u32 %r1, %me, 3; and.b32 %r1, %r1, 1; "
          "shr.u32 %r2, %me, 4;"
          "sust.b.3d.b32.trap [%image, {%r0, %r1, %r2, %r2}], %me; suld.b.3d.b32.trap %r3, "
          "[%image, {%r0, %r1, %r2, %r2}];"
          "st.global.u32 [%out], %r3;",
          1, [=](U t, U) { return t; });
  program("suq.width.b32 and height", {24, 5}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          "suq.width.b32 %r0, [%image]; suq.height.b32 %r1, [%image]; st.global.v2.u32 [%out], "
          "{%r0, %r1};",
          2, [=](U, U i) { return i == 0 ? 24U : 5U; });
  program("sured.b.add.2d.u32.trap", {8, 4}, CU_AD_FORMAT_UNSIGNED_INT32, 1,
          place +
              "shl.b32 %r0, %r0, 2; sured.b.add.2d.u32.trap [%image, {%r0, %r1}], %me;"
              "suld.b.2d.b32.trap %r2, [%image, {%r0, %r1}]; st.global.u32 [%out], %r2;",
          1, [=](U t, U) { return stored(t & 7, t >> 3, 0, 0) + t; });
}

}  // namespace cuspan::ptx_forms
