# cuspan_archives(VARIABLE names…): sets VARIABLE to the paths of the archives lib<name>.a, for
# CUSPAN_STATIC_LIBRARIES.
function(cuspan_archives variable)
  set(archives)
  foreach(name IN LISTS ARGN)
    find_library(CUSPAN_ARCHIVE_${name} lib${name}.a REQUIRED)
    list(APPEND archives ${CUSPAN_ARCHIVE_${name}})
  endforeach()
  set(${variable} ${archives} PARENT_SCOPE)
endfunction()
