// Common code of driver_bad_input's groups. Each group runs in a separate process.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include <string>

#include "tests/apps/driver_check.h"

// Begins a call. Returns true if it is to be made. The limit until the next call is kMaxSeconds.
bool Begin(const char* text);

// Ends the call: prints `group: text = result`.
void Tell(const char* text, const std::string& result);
void Tell(const char* text, CUresult result);

template <typename Call>
void Bad(const char* text, Call&& call) {
  if (Begin(text)) Tell(text, call());
}

// Makes the call, and prints its result with the given text, or with the call's own.
#define BAD_AS(text, ...) Bad(text, [&] { return (__VA_ARGS__); })
#define BAD(...) BAD_AS(#__VA_ARGS__, __VA_ARGS__)

// A call made only with --fatal. The GPU's driver crashes, hangs, or reads freed memory with
// varying results.
bool WithFatal();
#define FATAL(...) \
  if (WithFatal()) BAD(__VA_ARGS__)

// Initialises the driver; device 0 exists and has no context.
void Start();

// The same, with a new current context.
CUcontext StartContext();

// kernel(.param .u64 words, .param .u32 count, .param .u32 factor), shared memory of 16 bytes, and
// the variable `counter` of 4 bytes.
extern const char* const kPtx;

struct Code {
  CUmodule module;
  CUfunction kernel;
};
Code LoadCode();

template <typename T>
T Rubbish(int number) {
  return static_cast<T>(number);
}

// One function per group, in the file of its family.
void BeforeInit();
void Errors();
void Names();
void Devices();
void PrimaryContexts();

void NoContext();
void Contexts();
void DestroyedContext();
void OtherContext();
void OtherThread();
void Peers();

void Modules();
void Images();
void Functions();
void Libraries();
void Linker();
void Launches();
void LaunchBuffers();
void Occupancy();
void AfterFault();

void Memory();
void HostMemory();
void Copies();
void BoxCopies();
void Sets();
void Managed();
void Pools();
void VirtualMemory();
void Pointers();
void Ipc();

void Arrays();
void Textures();
void Surfaces();

void Streams();
void Capture();
void Events();
void Graphs();
void GraphNodes();
void GraphExecs();

void NullHandles();
