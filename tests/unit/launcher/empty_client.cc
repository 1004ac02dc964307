// Stands in for libcuspan.so in the launcher's tests: something to preload.
namespace {
[[maybe_unused]] constexpr int kNothing = 0;
}
