// Runs every form of PTX instructions on a device and compares with plain C++.
//
//   ptx_forms [--driver LIBRARY] [--only TEXT] [--json FILE] [--ptx FOLDER] [--kernels FILE]
//
// LIBRARY is "libcuda.so.1" by default. --json writes the device's results, for comparison with
// another device (compare_results.py). --ptx writes the PTX and exits. --kernels runs the kernels
// of a file instead of the forms (kernels.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <span>

#include "tests/unit/proxy/softgpu/instructions/forms.h"
#include "tests/unit/proxy/softgpu/instructions/gpu.h"
#include "tests/unit/proxy/softgpu/instructions/kernels.h"
#include "tests/unit/proxy/softgpu/instructions/numbers.h"
#include "tests/unit/proxy/softgpu/instructions/values.h"

namespace cuspan::ptx_forms {

std::vector<Form>& Forms() {
  static std::vector<Form> forms;
  return forms;
}
std::vector<Program>& Programs() {
  static std::vector<Program> programs;
  return programs;
}

namespace {

constexpr unsigned kSlots = 4;  // Inputs of a case, 64 bits each.
constexpr unsigned kOutSlots = 2;
constexpr std::size_t kMaxForms = 16;  // Per kernel.

std::string Register(Kind kind, const std::string& name) {
  const unsigned bits = BitsOf(kind);
  return "  .reg ." + (bits == 1 ? std::string("pred") : "b" + std::to_string(bits)) + " " + name +
         ";\n";
}

// Forms of one group with the same registers and the same cases.
struct Batch {
  std::vector<const Form*> forms;
  std::vector<std::uint64_t> cases;
};

// Makes one kernel of these forms: each thread runs all forms with one case. Inputs and outputs
// take more compile time than most forms.
std::string KernelOf(std::span<const Form* const> forms, const std::string& name) {
  static const char* const kIn[] = {"a", "b", "c", "e"};
  static const char* const kOut[] = {"d", "q"};
  const Form& first = *forms.front();
  std::string text = ".visible .entry " + name +
                     "(.param .u64 pin, .param .u64 pout, .param .u32 pcount)\n{\n"
                     "  .reg .b32 %i, %n, %t, %w;\n  .reg .b64 %in, %out, %x;\n  .reg .pred %p;\n";
  for (std::size_t i = 0; i < first.inputs.size(); ++i) text += Register(first.inputs[i], kIn[i]);
  text +=
      "  ld.param.u64 %in, [pin];\n  ld.param.u64 %out, [pout];\n  ld.param.u32 %n, [pcount];\n"
      "  mov.u32 %i, %ctaid.x;\n  mov.u32 %t, %ntid.x;\n  mov.u32 %w, %tid.x;\n"
      "  mad.lo.s32 %i, %i, %t, %w;\n  setp.ge.u32 %p, %i, %n;\n  @%p ret;\n";
  text += "  mul.wide.u32 %x, %i, " + std::to_string(8 * kSlots) + ";\n  add.s64 %in, %in, %x;\n";
  text += "  mul.wide.u32 %x, %i, " + std::to_string(8 * kOutSlots * forms.size()) +
          ";\n  add.s64 %out, %out, %x;\n";
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    const unsigned bits = BitsOf(first.inputs[i]);
    const std::string at = "[%in+" + std::to_string(8 * i) + "];\n";
    if (bits == 1) {
      text += "  ld.global.b32 %t, " + at + "  setp.ne.u32 " + kIn[i] + ", %t, 0;\n";
    } else {
      text += "  ld.global.b" + std::to_string(bits) + " " + kIn[i] + ", " + at;
    }
  }
  for (std::size_t j = 0; j < forms.size(); ++j) {
    // Separate registers: a form does not see results of other forms.
    text += "  {\n";
    for (std::size_t i = 0; i < first.outputs.size(); ++i)
      text += Register(first.outputs[i], kOut[i]);
    text += "  " + forms[j]->text + "\n";
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      const unsigned bits = BitsOf(first.outputs[i]);
      const std::string at = "[%out+" + std::to_string(8 * (j * kOutSlots + i)) + "], ";
      if (bits == 1) {
        text +=
            std::string("  selp.u32 %t, 1, 0, ") + kOut[i] + ";\n  st.global.b32 " + at + "%t;\n";
      } else {
        text += "  st.global.b" + std::to_string(bits) + " " + at + kOut[i] + ";\n";
      }
    }
    text += "  }\n";
  }
  return text + "  ret;\n}\n";
}

std::string KernelOf(const Program& program, const std::string& name) {
  std::string text = program.declarations + ".visible .entry " + name +
                     "(.param .u64 pin, .param .u64 pout, .param .u64 pimage)\n{\n"
                     "  .reg .b32 %me, %lan, %r<64>;\n  .reg .b64 %in, %out, %image, %rd<32>;\n"
                     "  .reg .b16 %h<32>;\n  .reg .f32 %f<32>;\n  .reg .f64 %fd<16>;\n"
                     "  .reg .pred %p<16>;\n";
  if (program.shared_bytes != 0)
    text += "  .shared .align 128 .b8 shared[" + std::to_string(program.shared_bytes) + "];\n";
  text +=
      "  mov.u32 %me, %tid.x;\n  mov.u32 %lan, %laneid;\n  ld.param.u64 %in, [pin];\n"
      "  ld.param.u64 %out, [pout];\n  ld.param.u64 %image, [pimage];\n  mul.wide.u32 %rd31, "
      "%me, " +
      std::to_string(4 * program.words_out) + ";\n  add.s64 %out, %out, %rd31;\n";
  return text + program.body + "\n  ret;\n}\n" + program.trailer;
}

std::string Header(unsigned target) {
  return ".version " + std::string(target > 90 ? "8.7" : "8.4") + "\n.target sm_" +
         std::to_string(target) + "\n.address_size 64\n";
}

struct Options {
  std::string driver = "libcuda.so.1", only, json, ptx, kernels;
};

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  int Run() {
    if (!options_.ptx.empty()) return WritePtx();
    gpu_ = std::make_unique<Gpu>(options_.driver);
    if (!options_.kernels.empty()) return RunKernels(*gpu_, options_.kernels) == 0 ? 0 : 1;
    in_ = gpu_->Allocate(kMaxCases * kSlots * 8);
    out_ = gpu_->Allocate(kMaxCases * kOutSlots * kMaxForms * 8);
    for (const Batch& batch : Batches()) RunForms(batch.forms, batch.cases);
    for (const Program& program : Programs())
      if (Wanted(program.group + ": " + program.name)) RunProgram(program);
    if (!options_.json.empty()) WriteJson();
    const auto deviating = std::count_if(Forms().begin(), Forms().end(),
                                         [this](const Form& form) { return Deviates(form); });
    std::printf(
        "%s: %u cases of %u forms; %u forms failed, %u are not for this device, %td not run since "
        "GPUs contradict the ISA\n",
        gpu_->name().c_str(), cases_, forms_, failed_, skipped_, deviating);
    return failed_ == 0 && forms_ != 0 ? 0 : 1;
  }

 private:
  bool Wanted(const std::string& text) const {
    return options_.only.empty() || text.find(options_.only) != std::string::npos;
  }

  bool Deviates(const Form& form) const { return form.gpus_deviate && !gpu_->is_software(); }

  int WritePtx() const {
    unsigned number = 0;
    const auto write = [&](unsigned target, const std::string& kernel, const std::string& comment) {
      std::ofstream file(options_.ptx + "/form" + std::to_string(number) + ".ptx");
      file << "// " << comment << "\n" << Header(target) << kernel;
      ++number;
    };
    for (const Form& form : Forms()) {
      const Form* const forms[] = {&form};
      if (Wanted(form.group + ": " + form.text)) write(90, KernelOf(forms, "form"), form.text);
    }
    for (const Program& program : Programs()) {
      if (Wanted(program.group + ": " + program.name))
        write(program.target, KernelOf(program, "form"), program.name);
    }
    return 0;
  }

  std::vector<Batch> Batches() const {
    std::vector<Batch> batches;
    for (const Form& form : Forms()) {
      if (!Wanted(form.group + ": " + form.text) || Deviates(form)) continue;
      std::vector<std::uint64_t> cases = CasesOf(form, kSlots, kMaxCases);
      const auto fits = [&](const Batch& batch) {
        const Form& other = *batch.forms.front();
        return batch.forms.size() < kMaxForms && form.group == other.group &&
               form.inputs == other.inputs && form.outputs == other.outputs && cases == batch.cases;
      };
      // If all matching batches are full, another one is added.
      const auto batch = std::find_if(batches.begin(), batches.end(), fits);
      if (batch != batches.end()) {
        batch->forms.push_back(&form);
      } else {
        batches.push_back({{&form}, std::move(cases)});
      }
    }
    return batches;
  }

  CUresult TryToLoad(const std::string& text, CUmodule* module, CUfunction* function) {
    const CUresult result = gpu_->cuModuleLoadData(module, text.c_str());
    return result != CUDA_SUCCESS ? result : gpu_->cuModuleGetFunction(function, *module, "form");
  }

  // Null if the driver refuses it; this counts as a failure unless it is allowed.
  CUfunction Load(const std::string& text, const std::string& what, CUmodule* module,
                  bool may_be_refused = false) {
    ++forms_;
    CUfunction function = nullptr;
    const CUresult result = TryToLoad(text, module, &function);
    if (result == CUDA_SUCCESS) return function;
    if (may_be_refused) {
      ++skipped_;
      return nullptr;
    }
    Fail(what, "refused: " + gpu_->Describe(result));
    return nullptr;
  }

  void Fail(const std::string& what, const std::string& how) {
    if (what != last_failed_) ++failed_;
    last_failed_ = what;
    std::printf("FAIL %s\n     %s\n", what.c_str(), how.c_str());
  }

  bool Launch(CUfunction function, unsigned blocks, unsigned threads, void** arguments,
              const std::string& what) {
    CUresult result =
        gpu_->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr);
    if (result == CUDA_SUCCESS) result = gpu_->cuStreamSynchronize(nullptr);
    if (result == CUDA_SUCCESS) return true;
    Fail(what, "launch: " + gpu_->Describe(result));
    if (gpu_->cuCtxSynchronize() != CUDA_SUCCESS) {
      std::printf("the context is lost; the remaining forms are not run\n");
      std::exit(1);
    }
    return false;
  }

  void RunForms(std::span<const Form* const> forms, const std::vector<std::uint64_t>& cases) {
    const std::string text = Header(90) + KernelOf(forms, "form");
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    const CUresult result = TryToLoad(text, &module, &function);
    if (result != CUDA_SUCCESS && forms.size() > 1) {
      // One of them is refused. Running them one by one finds it.
      for (const Form* const& form : forms) RunForms(std::span(&form, 1), cases);
      return;
    }
    const std::string what = WhatOf(*forms.front());
    forms_ += static_cast<unsigned>(forms.size());
    if (result != CUDA_SUCCESS) return Fail(what, "refused: " + gpu_->Describe(result));
    auto count = static_cast<std::uint32_t>(cases.size() / kSlots);
    const std::size_t words = count * kOutSlots * forms.size();
    gpu_->Upload(in_, cases.data(), cases.size() * 8);
    gpu_->Fill(out_, words * 8);
    void* arguments[] = {&in_, &out_, &count};
    if (!Launch(function, (count + 127) / 128, 128, arguments, what)) return;
    std::vector<std::uint64_t> results(words);
    gpu_->Download(results.data(), out_, words * 8);
    gpu_->cuModuleUnload(module);
    for (std::size_t j = 0; j < forms.size(); ++j)
      Compare(*forms[j], cases, &results[j * kOutSlots], kOutSlots * forms.size());
  }

  static std::string WhatOf(const Form& form) { return form.group + ": " + form.text; }

  // Compares the results of a form; those of consecutive cases are `stride` apart.
  void Compare(const Form& form, const std::vector<std::uint64_t>& cases,
               const std::uint64_t* results, std::size_t stride) {
    const std::string what = WhatOf(form);
    const std::size_t count = cases.size() / kSlots;
    cases_ += static_cast<unsigned>(count);
    unsigned wrong = 0;
    std::string& json = json_[what];
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t expected[kOutSlots] = {};
      const std::uint64_t* const in = &cases[i * kSlots];
      form.reference(in, expected);
      for (std::size_t k = 0; k < form.outputs.size(); ++k) {
        const std::uint64_t got = Canonical(form.outputs[k], results[i * stride + k]);
        if (!options_.json.empty()) Append(json, form.outputs[k], got);
        if (Agrees(form.outputs[k], got, expected[k], form.tolerance)) continue;
        if (++wrong > 3) continue;
        std::string how = "inputs";
        for (std::size_t j = 0; j < form.inputs.size(); ++j)
          how += " " + Show(form.inputs[j], in[j]);
        how += ": got " + Show(form.outputs[k], got) + ", expected " +
               Show(form.outputs[k], expected[k]);
        Fail(what, how);
      }
    }
    if (wrong > 3) std::printf("     … and %u more\n", wrong - 3);
    Describe(what, form.outputs, form.tolerance);
  }

  void RunProgram(const Program& program) {
    const std::string what = program.group + ": " + program.name;
    if (static_cast<unsigned>(gpu_->capability()) < program.target) {
      ++skipped_;
      return;
    }
    CUmodule module = nullptr;
    CUfunction function = Load(Header(program.target) + KernelOf(program, "form"), what, &module,
                               program.may_be_refused);
    if (function == nullptr) return;
    std::uint64_t image = program.image ? program.image(*gpu_) : 0;
    const std::size_t words = std::size_t{program.threads} * program.words_out;
    gpu_->Upload(in_, program.input.data(), program.input.size() * 4);
    gpu_->Fill(out_, words * 4);
    void* arguments[] = {&in_, &out_, &image};
    if (!Launch(function, 1, program.threads, arguments, what)) return;
    std::vector<std::uint32_t> results(words);
    gpu_->Download(results.data(), out_, words * 4);
    gpu_->cuModuleUnload(module);
    cases_ += static_cast<unsigned>(words);
    unsigned wrong = 0;
    std::string& json = json_[what];
    if (program.expected.size() != words) {
      Fail(what, "the test expects " + std::to_string(program.expected.size()) + " words");
      return;
    }
    for (std::size_t i = 0; i < words; ++i) {
      const std::uint64_t got = Canonical(program.kind, results[i]);
      if (!options_.json.empty()) Append(json, program.kind, got);
      if (Agrees(program.kind, got, program.expected[i], program.tolerance) || ++wrong > 4)
        continue;
      Fail(what, "thread " + std::to_string(i / program.words_out) + ", word " +
                     std::to_string(i % program.words_out) + ": got " + Show(program.kind, got) +
                     ", expected " + Show(program.kind, program.expected[i]));
    }
    if (wrong > 4) std::printf("     … and %u more\n", wrong - 4);
    Describe(what, {program.kind}, program.tolerance);
  }

  static void Append(std::string& json, Kind kind, std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "%s%0*llx", json.empty() ? "" : " ",
                  static_cast<int>((BitsOf(kind) + 3) / 4), static_cast<unsigned long long>(value));
    json += text;
  }

  void Describe(const std::string& what, const std::vector<Kind>& kinds, const Tolerance& t) {
    std::string kind_names;
    for (const Kind kind : kinds)
      kind_names += std::string(kind_names.empty() ? "" : " ") + NameOf(kind);
    char text[160];
    std::snprintf(text, sizeof text,
                  "\"kinds\": \"%s\", \"ulps\": %.17g, \"relative\": %.17g, \"absolute\": %.17g",
                  kind_names.c_str(), t.ulps, t.relative, t.absolute);
    facts_[what] = text;
  }

  void WriteJson() const {
    std::ofstream file(options_.json);
    file << "{\"device\": \"" << gpu_->name() << "\", \"forms\": {\n";
    bool first = true;
    for (const auto& [what, results] : json_) {
      const auto facts = facts_.find(what);
      if (facts == facts_.end()) continue;
      file << (first ? "" : ",\n") << "\"" << what << "\": {" << facts->second
           << ", \"results\": \"" << results << "\"}";
      first = false;
    }
    file << "\n}}\n";
  }

  static constexpr std::size_t kMaxCases = 4096;
  const Options options_;
  std::unique_ptr<Gpu> gpu_;
  CUdeviceptr in_ = 0, out_ = 0;
  unsigned cases_ = 0, forms_ = 0, failed_ = 0, skipped_ = 0;
  std::string last_failed_;
  std::map<std::string, std::string> json_, facts_;
};

}  // namespace
}  // namespace cuspan::ptx_forms

int main(int argc, char** argv) {
  using namespace cuspan::ptx_forms;
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    std::string* const value = name == "--driver"    ? &options.driver
                               : name == "--only"    ? &options.only
                               : name == "--json"    ? &options.json
                               : name == "--ptx"     ? &options.ptx
                               : name == "--kernels" ? &options.kernels
                                                     : nullptr;
    if (value == nullptr) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
    *value = argv[i + 1];
  }
  AddIntegerForms();
  AddVideoForms();
  AddFloatForms();
  AddHalfForms();
  AddConvertForms();
  AddCompareForms();
  AddApproximateForms();
  AddWarpPrograms();
  AddMemoryPrograms();
  AddMatrixPrograms();
  AddTexturePrograms();
  AddSurfacePrograms();
  AddSpacePrograms();
  AddCodePrograms();
  return Runner(options).Run();
}
