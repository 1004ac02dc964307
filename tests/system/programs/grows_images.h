// Device code loaded by `grows`.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

inline const std::string kPtx = R"(
.version 6.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 variable = 1;
.visible .entry kernel(.param .u64 words)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [words];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

// The same code as a fat binary with one entry.
inline std::vector<unsigned char> Container() {
  const uint64_t text = (kPtx.size() + 1 + 7) / 8 * 8;
  std::vector<unsigned char> bytes(16 + 64 + text);
  const auto put = [&](size_t at, auto value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  put(0, uint32_t{0xba55ed50});
  put(4, uint16_t{1});
  put(6, uint16_t{16});
  put(8, uint64_t{64 + text});
  put(16, uint16_t{1});  // PTX
  put(18, uint16_t{0x101});
  put(20, uint32_t{64});
  put(24, text);
  put(36, uint16_t{0});
  put(38, uint16_t{6});
  put(40, uint32_t{50});
  put(56, uint64_t{1});
  std::memcpy(bytes.data() + 80, kPtx.c_str(), kPtx.size());
  return bytes;
}
