/* One symbol for each version node of libcuspan.map. They are never used. */
__attribute__((visibility("default"))) const char __cudart_node_110 = 0;
__attribute__((visibility("default"))) const char __cudart_node_12 = 0;
__attribute__((visibility("default"))) const char __cudart_node_13 = 0;
