#include "interpose/client/python.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string_view>

#include "common/format.h"

namespace cuspan {
namespace {

// Asking must stop before the interpreter ends: taking its lock afterwards ends the process.
std::atomic<bool> ending = false;
std::atomic<pid_t> asking = 0;  // Pid of the asking process; another one after a fork.

constexpr int kMaxFrames = 100;
constexpr std::size_t kMaxFileBytes = 72;

// True if the file of a frame is the program's own.
bool IsProgram(std::string_view file) {
  for (const char* part : {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3",
                           "/torchinductor_", "<frozen "})
    if (file.find(part) != std::string_view::npos) return false;
  return true;
}

// Removes the working directory from a path, and cuts the start of a very long one.
std::string ShortFile(std::string_view file) {
  // On the heap, since the stack may be small.
  std::string folder(PATH_MAX, '\0');
  if (::getcwd(folder.data(), folder.size()) != nullptr) {
    folder.resize(std::strlen(folder.c_str()));
    folder.push_back('/');
    if (file.starts_with(folder)) file.remove_prefix(folder.size());
  }
  if (file.size() <= kMaxFileBytes) return std::string(file);
  file.remove_prefix(file.size() - kMaxFileBytes);
  if (const std::size_t folder_end = file.find('/'); folder_end != std::string_view::npos)
    file.remove_prefix(folder_end);
  return Format("...{}", file);
}

}  // namespace

struct Python::Owned {
  Owned(const Python& python, Object* object) : python(python), object(object) {}
  ~Owned() {
    if (object != nullptr) python.decrease_(object);
  }
  Owned(const Owned&) = delete;
  const Python& python;
  Object* object;
};

struct Python::Method {
  const char* name;
  Object* (*function)(Object*, Object*);
  int flags;
  const char* documentation;
};

template <typename Function>
bool Python::Load(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool Python::LoadAll() {
  // Without the lock, frames of other threads change while they are read.
  const char* (*version)() = nullptr;
  if (!Load("Py_GetVersion", version) ||
      std::string_view(version()).find("free-threading") != std::string_view::npos)
    return false;
  // Public since 3.13; before, it had the second name.
  if (!Load("PyThreadState_GetUnchecked", current_thread_) &&
      !Load("_PyThreadState_UncheckedGet", current_thread_))
    return false;
  none_ = ::dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
  return none_ != nullptr && Load("Py_IsInitialized", is_initialized_) &&
         Load("PyGILState_Ensure", ensure_) && Load("PyGILState_Release", release_) &&
         Load("PyGILState_GetThisThreadState", own_thread_) &&
         Load("PyEval_SaveThread", save_thread_) && Load("PyEval_RestoreThread", restore_thread_) &&
         Load("PyGC_Disable", disable_collection_) && Load("PyGC_Enable", enable_collection_) &&
         Load("PyErr_Occurred", error_occurred_) && Load("PyErr_Clear", clear_error_) &&
         Load("PyEval_GetFrame", frame_) && Load("PySys_GetObject", of_sys_) &&
         Load("PyImport_ImportModule", import_) && Load("PyObject_CallObject", call_) &&
         Load("PyObject_CallFunctionObjArgs", call_with_) &&
         Load("PyObject_GetAttrString", attribute_) && Load("PyDict_Next", next_) &&
         Load("PyLong_AsUnsignedLong", as_unsigned_) && Load("PyLong_AsLong", as_long_) &&
         Load("PyUnicode_AsUTF8", as_utf8_) && Load("PyCFunction_NewEx", new_function_) &&
         Load("PyInterpreterState_Head", first_interpreter_) &&
         Load("PyInterpreterState_Next", next_interpreter_) && Load("Py_DecRef", decrease_) &&
         Load("Py_IncRef", increase_);
}

const Python* Python::Find() {
  // Never destroyed: threads use it until the process ends.
  static const Python* const found = []() -> const Python* {
    auto* const python = new Python;
    if (python->LoadAll() && python->is_initialized_() != 0) return python;
    delete python;
    return nullptr;
  }();
  return found;
}

bool Python::ThisThreadHoldsLock() const {
  if (ending.load() || is_initialized_() == 0) return false;
  void* const own = own_thread_();
  return own != nullptr && own == current_thread_();
}

std::string Python::TextOf(Object* object, const char* attribute) const {
  const Owned value(*this, attribute_(object, attribute));
  const char* const text = value.object != nullptr ? as_utf8_(value.object) : nullptr;
  if (text != nullptr) return text;
  clear_error_();
  return {};
}

long Python::NumberOf(Object* object, const char* attribute) const {
  const Owned value(*this, attribute_(object, attribute));
  const long number = value.object != nullptr ? as_long_(value.object) : -1;
  if (number == -1) clear_error_();
  return number;
}

std::string Python::LocationOf(Object* frame) const {
  std::string innermost;
  increase_(frame);
  for (int depth = 0; frame != nullptr; ++depth) {
    const Owned here(*this, frame);
    if (depth == kMaxFrames) break;
    const Owned code(*this, attribute_(frame, "f_code"));
    if (code.object == nullptr) break;
    const std::string file = TextOf(code.object, "co_filename");
    const bool own = IsProgram(file);
    if (own || innermost.empty()) {
      innermost = Format("{}:{} ({})", ShortFile(file), NumberOf(frame, "f_lineno"),
                         TextOf(code.object, "co_name"));
    }
    if (own) return innermost;
    frame = attribute_(frame, "f_back");
    if (frame == none_) {
      decrease_(frame);
      frame = nullptr;
    }
  }
  clear_error_();
  return innermost;
}

std::string Python::LocationHere() const {
  // An exception is being raised.
  if (error_occurred_() != nullptr) return {};
  Object* const frame = frame_();
  if (frame == nullptr) return {};
  // A collection could run destructors of the program in the middle of a call.
  const bool collecting = disable_collection_() != 0;
  std::string location = LocationOf(frame);
  if (collecting) enable_collection_();
  return location;
}

// Called by Python's atexit, before the interpreter ends.
Python::Object* Python::OnExit(Object*, Object*) {
  const Python& python = *Find();
  ending.store(true);
  void* const thread = python.save_thread_();
  // Short: the asking thread only waits for Python's lock, free now.
  while (asking.load() == ::getpid()) ::usleep(100);
  python.restore_thread_(thread);
  python.increase_(python.none_);
  return python.none_;
}

bool Python::RegisterExit() const {
  constexpr int kNoArguments = 4;  // METH_NOARGS
  static Method method{"cuspan_end", OnExit, kNoArguments, nullptr};
  const Owned function(*this, new_function_(&method, nullptr, nullptr));
  const Owned module(*this, import_("atexit"));
  const Owned add(*this,
                  module.object != nullptr ? attribute_(module.object, "register") : nullptr);
  const bool known =
      function.object != nullptr && add.object != nullptr &&
      Owned(*this, call_with_(add.object, function.object, nullptr)).object != nullptr;
  clear_error_();
  return known;
}

bool Python::StartAsking() const {
  asking.store(::getpid());
  if (!ending.load() && is_initialized_() != 0) return true;
  StopAsking();
  return false;
}

void Python::StopAsking() const { asking.store(0); }

std::map<std::uint64_t, std::string> Python::LocationsOf(
    const std::set<std::uint64_t>& threads) const {
  std::map<std::uint64_t, std::string> locations;
  const bool collecting = disable_collection_() != 0;
  static const bool exit_is_registered = RegisterExit();
  // The lock belongs to one interpreter, but the query covers all.
  const bool told = exit_is_registered && next_interpreter_(first_interpreter_()) == nullptr;
  Object* const function = told ? of_sys_("_current_frames") : nullptr;
  if (function != nullptr) {
    const Owned frames(*this, call_(function, nullptr));
    std::intptr_t position = 0;
    Object* thread = nullptr;
    Object* frame = nullptr;
    while (frames.object != nullptr && next_(frames.object, &position, &thread, &frame) != 0)
      if (const std::uint64_t number = as_unsigned_(thread); threads.contains(number))
        locations[number] = LocationOf(frame);
  }
  clear_error_();
  if (collecting) enable_collection_();
  return locations;
}

}  // namespace cuspan
