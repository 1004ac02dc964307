// Helpers for programs using cuFFT: complex values, and Fourier transforms by their definition.
#pragma once

#include <cufft.h>

#include <complex>
#include <cstddef>
#include <numbers>
#include <vector>

#include "library_check.h"

// Complex: cufftComplex or cufftDoubleComplex.

template <typename Complex>
std::vector<Complex> RandomComplex(std::size_t size, unsigned seed = 1) {
  const std::vector<double> parts = RandomVector<double>(2 * size, seed);
  std::vector<Complex> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i].x = static_cast<decltype(Complex::x)>(parts[2 * i]);
    values[i].y = static_cast<decltype(Complex::y)>(parts[2 * i + 1]);
  }
  return values;
}

template <typename Complex>
std::vector<std::complex<double>> Widened(const std::vector<Complex>& values) {
  std::vector<std::complex<double>> widened;
  for (const Complex& value : values) widened.emplace_back(value.x, value.y);
  return widened;
}

template <typename Complex>
std::vector<Complex> Narrowed(const std::vector<std::complex<double>>& values) {
  std::vector<Complex> narrowed(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    narrowed[i].x = static_cast<decltype(Complex::x)>(values[i].real());
    narrowed[i].y = static_cast<decltype(Complex::y)>(values[i].imag());
  }
  return narrowed;
}

// Computes the transform by its defining sums, along one axis after another of an array with these
// sizes; the last index runs fastest. `direction` is CUFFT_FORWARD or CUFFT_INVERSE; nothing is
// scaled.
inline std::vector<std::complex<double>> Transform(std::vector<std::complex<double>> values,
                                                   const std::vector<int>& sizes, int direction) {
  std::size_t stride = values.size();
  for (const std::size_t size : std::vector<std::size_t>(sizes.begin(), sizes.end())) {
    stride /= size;
    std::vector<std::complex<double>> roots;
    for (std::size_t i = 0; i < size; ++i)
      roots.push_back(std::polar(1.0, direction * 2 * std::numbers::pi * static_cast<double>(i) /
                                          static_cast<double>(size)));
    std::vector<std::complex<double>> sums(values.size());
    for (std::size_t at = 0; at < values.size(); ++at) {
      const std::size_t index = at / stride % size;
      for (std::size_t i = 0; i < size; ++i)
        sums[at] += values[at - index * stride + i * stride] * roots[index * i % size];
    }
    values = sums;
  }
  return values;
}

// Applies RequireNear to the real and imaginary parts.
template <typename Complex>
void RequireComplexNear(const std::vector<Complex>& found,
                        const std::vector<std::complex<double>>& expected, double tolerance) {
  std::vector<double> found_parts, expected_parts;
  for (const Complex& value : found) {
    found_parts.push_back(value.x);
    found_parts.push_back(value.y);
  }
  for (const std::complex<double>& value : expected) {
    expected_parts.push_back(value.real());
    expected_parts.push_back(value.imag());
  }
  RequireNear(found_parts, expected_parts, tolerance);
}
