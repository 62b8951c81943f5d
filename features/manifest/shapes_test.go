package manifest

func ask(feats string) Request { return Request{Features: []string{feats}} }
