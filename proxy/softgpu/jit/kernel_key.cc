#include "proxy/softgpu/jit/kernel_key.h"

#define XXH_INLINE_ALL
#include <elf.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/Support/Host.h>
#include <xxhash.h>

#include <array>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/format.h"
#include "common/settings.h"

namespace cuspan::softgpu::jit {
namespace {

class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }

  void Add(const void* data, std::size_t bytes) { XXH3_128bits_update(&state_, data, bytes); }
  void Add(std::uint64_t number) { Add(&number, sizeof number); }
  // Adds the length, too: adjacent texts must not be confused.
  void Add(std::string_view text) {
    Add(text.size());
    Add(text.data(), text.size());
  }
  CacheKey Key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_;
};

// Build id of the file containing this code; empty without one.
std::string BuildId() {
  struct Search {
    std::uintptr_t inside;
    std::string id;
  } search{reinterpret_cast<std::uintptr_t>(&BuildId), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& search = *static_cast<Search*>(argument);
        bool ours = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          ours = ours || (part.p_type == PT_LOAD && search.inside - begin < part.p_memsz);
        }
        if (!ours) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
          const char* const end = at + part.p_memsz;
          while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
            const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
            const char* const name = at + sizeof *note;
            const char* const id = name + (note->n_namesz + 3) / 4 * 4;
            at = id + (note->n_descsz + 3) / 4 * 4;
            if (at > end) break;
            if (note->n_type == NT_GNU_BUILD_ID &&
                std::string_view(name, note->n_namesz) == std::string_view("GNU\0", 4))
              search.id.assign(id, note->n_descsz);
          }
        }
        return 1;
      },
      &search);
  return search.id;
}

// Everything outside the program affecting the generated code.
const std::string& Compiler() {
  static const auto* const text = new std::string([] {
    unsigned version[3] = {};
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    std::string all = Format("{}\n{}.{}.{}\n{}\n", BuildId(), version[0], version[1], version[2],
                             std::string_view(llvm::sys::getHostCPUName()));
    all += std::string("for ") + SettingText(settings::kSoftInstructions) + "\n";
    llvm::StringMap<bool> features;
    llvm::sys::getHostCPUFeatures(features);
    std::set<std::string> present;
    for (const auto& feature : features)
      if (feature.second) present.insert(feature.first().str());
    for (const std::string& feature : present) all += feature + ",";
    return all;
  }());
  return *text;
}

constexpr std::array<bool, 256> MakeNameCharacters() {
  std::array<bool, 256> characters{};
  for (unsigned c = '0'; c <= '9'; ++c) characters[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) characters[c] = characters[c - 'a' + 'A'] = true;
  for (const char c : {'_', '$', '%'}) characters[static_cast<unsigned char>(c)] = true;
  return characters;
}
constexpr auto kNameCharacters = MakeNameCharacters();

// Visits every word of `text` possibly naming something in the module. Words in comments are
// visited, too; this is harmless.
template <typename Visit>
void ForEachWord(std::string_view text, Visit visit) {
  const auto is_name = [&](std::size_t i) {
    return kNameCharacters[static_cast<unsigned char>(text[i])];
  };
  for (std::size_t i = 0; i < text.size();) {
    if (!is_name(i)) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && is_name(i)) ++i;
    const char first = text[begin];
    const bool is_modifier = begin != 0 && text[begin - 1] == '.';
    if (first != '%' && !(first >= '0' && first <= '9') && !is_modifier)
      visit(text.substr(begin, i - begin));
  }
}

class KeyMaker {
 public:
  KeyMaker(std::string_view text, const ptx::Module& module) : text_(text), module_(module) {}

  CacheKey Make(std::uint32_t kernel) {
    hasher_.Add(Compiler());
    hasher_.Add(module_.version);
    hasher_.Add(module_.target);
    Reach(kernel);
    for (std::size_t i = 0; i < reached_.size(); ++i) Follow(module_.functions[reached_[i]]);
    return hasher_.Key();
  }

 private:
  void Reach(std::uint32_t function) {
    if (seen_functions_.insert(function).second) reached_.push_back(function);
  }

  void Follow(const ptx::Function& function) {
    const auto text = text_.substr(function.text_begin, function.text_end - function.text_begin);
    hasher_.Add(text);
    hasher_.Add(function.line);                                         // Part of messages.
    if (text.find(".loc") != std::string_view::npos) AddSourceFiles();  // Part of messages, too.
    if (!function.defined) return;
    // The targets of indirect calls depend on the whole module.
    if (text.find(".callprototype") != std::string_view::npos ||
        text.find(".calltargets") != std::string_view::npos)
      hasher_.Add(text_);
    ForEachWord(text, [&](std::string_view word) {
      if (const auto found = module_.function_index.find(word);
          found != module_.function_index.end()) {
        Reach(found->second);
      } else if (const auto variable = module_.variable_index.find(word);
                 variable != module_.variable_index.end()) {
        AddVariable(variable->second);
      }
    });
  }

  void AddSourceFiles() {
    if (std::exchange(has_source_files_, true)) return;
    for (const auto& [number, name] : module_.source_files) {
      hasher_.Add(number);
      hasher_.Add(name);
    }
  }

  void AddVariable(std::uint32_t index) {
    if (!seen_variables_.insert(index).second) return;
    const ptx::Variable& variable = module_.variables[index];
    hasher_.Add(variable.name);
    hasher_.Add(static_cast<std::uint64_t>(variable.space));
    hasher_.Add(static_cast<std::uint64_t>(variable.type));
    hasher_.Add(variable.alignment);
    hasher_.Add(variable.bytes);
    hasher_.Add(variable.external);
  }

  const std::string_view text_;
  const ptx::Module& module_;
  Hasher hasher_;
  std::vector<std::uint32_t> reached_;
  std::unordered_set<std::uint32_t> seen_functions_, seen_variables_;
  bool has_source_files_ = false;
};

}  // namespace

CacheKey KeyOfKernel(std::string_view text, const ptx::Module& module, std::uint32_t kernel) {
  return KeyMaker(text, module).Make(kernel);
}

CacheKey KeyOfVariant(const CacheKey& key, std::string_view variant) {
  Hasher hasher;
  hasher.Add(key.low);
  hasher.Add(key.high);
  hasher.Add(variant);
  return hasher.Key();
}

const std::string& BuildName() {
  static const auto* const name = new std::string([] {
    std::string text;
    for (const char byte : BuildId())
      AppendFormat(text, "{:02x}", static_cast<unsigned char>(byte));
    return text;
  }());
  return *name;
}

}  // namespace cuspan::softgpu::jit
