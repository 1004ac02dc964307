#include "interpose/calls/driver_functions.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

// Generated in strcmp's order, see load/generate_exports.py.
extern "C" {
extern const cuspan::DriverFunction cuspan_driver_exports[];
extern const std::size_t cuspan_driver_exports_count;
}

namespace cuspan {
namespace {

// Suffixes of the forms of a function. No function has more.
constexpr std::array<const char*, 4> kForms{"", "_v2", "_v3", "_v4"};

const DriverFunction* FindForm(const char* name, const char* form, bool per_thread) {
  const std::string wanted = std::string(name) + form;
  if (per_thread) {
    // Each function has at most one of these variants.
    for (const char* const twin : {"_ptsz", "_ptds"})
      if (const auto* const found = FindDriverFunction((wanted + twin).c_str())) return found;
  }
  return FindDriverFunction(wanted.c_str());
}

// True if the name has a suffix.
bool NamesOneForm(std::string_view name) {
  const std::size_t at = name.rfind('_');
  if (at == std::string_view::npos) return false;
  const std::string_view suffix = name.substr(at);
  return suffix == "_ptsz" || suffix == "_ptds" ||
         (suffix.size() == 3 && suffix[1] == 'v' && suffix[2] >= '0' && suffix[2] <= '9');
}

}  // namespace

const DriverFunction* FindDriverFunction(const char* name) {
  const std::span all(cuspan_driver_exports, cuspan_driver_exports_count);
  const auto found = std::lower_bound(
      all.begin(), all.end(), std::string_view(name),
      [](const DriverFunction& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != all.end() && std::string_view(found->name) == name ? &*found : nullptr;
}

const DriverFunction* FindDriverFunction(const char* name, int version, bool per_thread,
                                         bool* too_old) {
  *too_old = false;
  if (NamesOneForm(name)) return nullptr;
  const DriverFunction* newest = nullptr;
  for (const char* const form : kForms) {
    const DriverFunction* const found = FindForm(name, form, per_thread);
    if (found == nullptr || found->since == 0 || found->absent) continue;
    if (found->since > version) {
      *too_old = newest == nullptr;
      continue;
    }
    if (newest == nullptr || found->since > newest->since) newest = found;
  }
  if (newest != nullptr) *too_old = false;
  return newest;
}

}  // namespace cuspan
