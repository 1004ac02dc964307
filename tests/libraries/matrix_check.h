// Helpers for programs using cuSOLVER: products of dense matrices.
#pragma once

#include <vector>

#include "library_check.h"

// op(a)·b, column by column; op(a) is m × k.
template <typename T>
std::vector<double> Product(const std::vector<T>& a, bool a_transposed, const std::vector<T>& b,
                            int m, int n, int k) {
  std::vector<double> product(m * n);
  for (int column = 0; column < n; ++column)
    for (int row = 0; row < m; ++row)
      for (int i = 0; i < k; ++i)
        product[column * m + row] +=
            static_cast<double>(a[a_transposed ? row * k + i : i * m + row]) *
            static_cast<double>(b[column * k + i]);
  return product;
}
