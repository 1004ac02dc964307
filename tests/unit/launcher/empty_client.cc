// Stands in for libcuspan.so in the launcher's tests: an empty library to preload.
namespace {
[[maybe_unused]] constexpr int kNothing = 0;
}
